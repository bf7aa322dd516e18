package shell

import "strings"

// npmCommand is the command of npm that a word means: npm takes other names, and
// the beginning of every name that no other one has. "" for none.
func npmCommand(word string) string {
	if word == "" {
		return ""
	}
	if full, ok := npmNames[word]; ok {
		return full
	}
	found := ""
	for name, full := range npmNames {
		if !strings.HasPrefix(name, word) || full == found {
			continue
		}
		if found != "" {
			return ""
		}
		found = full
	}
	return found
}

// npmNames has every command under all of its names.
var npmNames = func() map[string]string {
	names := map[string]string{}
	for name := range strings.FieldsSeq("access adduser audit bugs cache completion config dedupe deprecate diff dist-tag docs doctor edit exec " +
		"explain explore find-dupes fund get help help-search hook init install-ci-test install-test link ll login logout ls org outdated owner " +
		"pack ping pkg prefix profile prune publish query rebuild repo restart root run sbom search set shrinkwrap star stars start stop " +
		"team test token undeprecate unpublish unstar update version view whoami") {
		names[name] = name
	}
	for full, others := range map[string]string{
		"install": "install add i in ins inst insta instal isnt isnta isntal isntall", "ci": "ci clean-install ic install-clean isntall-clean",
		"uninstall": "uninstall unlink remove rm r un", "run": "run-script rum urn", "test": "tst t", "exec": "x", "init": "create innit",
		"ls": "list", "view": "info show v", "update": "up upgrade udpate", "publish": "publish", "config": "c", "login": "add-user", "rebuild": "rb",
	} {
		for name := range strings.FieldsSeq(others) {
			names[name] = full
		}
	}
	return names
}()
