package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// canonicalArguments returns the arguments in the form used for comparison: kill -s
// KILL becomes kill -9, docker container rm becomes docker rm, and git push +main
// becomes git push -f main.
func canonicalArguments(program string, args []Word) []Word {
	if letters, ok := valued[program]; ok {
		args = splitOptions(letters, args)
	}
	switch program {
	case "kill", "pkill", "killall":
		return normalizeSignals(args)
	case "git":
		return canonicalGit(args)
	case "npm":
		return replaceFirst(args, npmCommand)
	case "helm":
		return replaceFirst(args, func(s string) string { return helmNames[s] })
	case "docker", "podman", "nerdctl":
		return normalizeContainers(args)
	case "kubectl", "oc":
		return normalizeResources(args)
	case "terraform", "tofu":
		return canonicalDestroy(args)
	case "chmod":
		return replaceFirst(args, chmodMode)
	case "cargo":
		if len(args) > 0 && strings.HasPrefix(args[0].Text, "+") { // cargo +nightly publish
			return args[1:]
		}
	case "tar":
		if len(args) > 0 && args[0].Fixed && args[0].Text != "" && args[0].Text[0] != '-' {
			return append([]Word{{Text: "-" + args[0].Text, Fixed: true}}, args[1:]...)
		}
	}
	return args
}

// valued lists the option letters whose value may follow in the same word.
var valued = map[string]string{
	"curl": "XdoHuTFAbcemwEKxDr", "wget": "OoiePU", "mysql": "eDhuP", "psql": "cfdhUp", "python": "cmWX",
}

// splitOptions splits -XPOST and --request=POST into two words.
func splitOptions(letters string, args []Word) []Word {
	out := make([]Word, 0, len(args))
	for _, a := range args {
		name, value, given := strings.Cut(a.Text, "=")
		at := 0
		if isCluster(a.Text) {
			at = strings.IndexAny(a.Text[1:], letters) + 2
		}
		switch {
		case a.Fixed && given && strings.HasPrefix(name, "--"):
			out = append(out, Word{Text: name, Fixed: true}, Word{Text: value, Fixed: true})
		case a.Fixed && at >= 2 && at < len(a.Text):
			out = append(out, Word{Text: a.Text[:at], Fixed: true}, Word{Text: a.Text[at:], Fixed: true})
		default:
			out = append(out, a)
		}
	}
	return out
}

// replaceFirst replaces the first operand, and words before it that may be the value of
// an option. to returns "" for a word that stays.
func replaceFirst(args []Word, to func(string) string) []Word {
	out := slices.Clone(args)
	option := false
	for i, a := range out {
		if a.Fixed && len(a.Text) > 1 && a.Text[0] == '-' {
			option = !strings.Contains(a.Text, "=")
			continue
		}
		if text := to(a.Text); a.Fixed && text != "" {
			out[i].Text = text
		}
		if !option {
			break
		}
		option = false
	}
	return out
}

func normalizeSignals(args []Word) []Word {
	var out []Word
	for i := 0; i < len(args); i++ {
		a := args[i]
		if (a.Text == "-s" || a.Text == "-n" || a.Text == "--signal") && i+1 < len(args) && args[i+1].Fixed {
			i++
			a.Text = "-" + args[i].Text
		}
		if value, ok := strings.CutPrefix(a.Text, "--signal="); ok {
			a.Text = "-" + value
		}
		if name, ok := strings.CutPrefix(a.Text, "-"); ok {
			name = strings.TrimLeft(strings.ToUpper(name), "N")
			switch strings.TrimPrefix(strings.TrimPrefix(name, "SSIG"), "SIG") {
			case "KILL", "SKILL", "9", "S9":
				a.Text = "-9"
			}
		}
		out = append(out, a)
	}
	return out
}

func canonicalDestroy(args []Word) []Word {
	if !slices.ContainsFunc(args, func(a Word) bool { return strings.HasPrefix(strings.Replace(a.Text, "--", "-", 1), "-destroy") }) {
		return args
	}
	return replaceFirst(args, func(s string) string {
		if s == "apply" {
			return "destroy"
		}
		return ""
	})
}

func chmodMode(mode string) string {
	switch mode {
	case "a+rwx", "+rwx", "a=rwx", "=rwx", "ugo+rwx", "ugo=rwx":
		return "777"
	}
	plain := strings.TrimLeft(mode, "0")
	switch {
	case len(plain) == 3 && isDigits(plain):
		return plain
	case len(plain) == 4 && strings.HasSuffix(plain, "777") && strings.Trim(plain[:1], "1234567") == "" && plain[0] != '1': // 1777 is a shared folder
		return "777"
	case opensToAll(mode):
		return "777"
	}
	return ""
}

// opensToAll reports whether a symbolic mode gives everyone all permissions:
// u=rwx,go=rwx.
func opensToAll(mode string) bool {
	var given strings.Builder
	for clause := range strings.SplitSeq(mode, ",") {
		at := strings.IndexAny(clause, "+=")
		if at < 0 {
			return false
		}
		who := clause[:at]
		if who == "" || strings.Contains(who, "a") {
			who = "ugo"
		}
		if rights := clause[at+1:]; strings.ContainsAny(rights, "xX") && strings.Contains(rights, "r") && strings.Contains(rights, "w") {
			given.WriteString(who)
		}
	}
	all := given.String()
	return strings.Contains(all, "u") && strings.Contains(all, "g") && strings.Contains(all, "o")
}

var helmNames = map[string]string{"delete": "uninstall", "del": "uninstall", "un": "uninstall", "ls": "list", "fetch": "pull"}

// normalizeContainers drops the noun that docker makes optional: docker container rm is docker rm.
func normalizeContainers(args []Word) []Word {
	for i := 0; i+1 < len(args); i++ {
		verbs, ok := dockerNouns[args[i].Text]
		if !ok || !args[i].Fixed || !args[i+1].Fixed {
			continue
		}
		out := slices.Clone(args)
		verb := out[i+1].Text
		switch verb {
		case "remove":
			verb = "rm"
		case "list":
			verb = "ls"
		}
		out[i+1].Text = verb
		switch {
		case out[i].Text == "image" && verb == "rm":
			out[i+1].Text = "rmi"
		case !isListed(verbs, verb):
			return out
		}
		return slices.Delete(out, i, i+1)
	}
	return args
}

// dockerNouns lists the verbs that docker also accepts without the noun.
var dockerNouns = map[string]string{
	"container": "attach commit cp create diff exec export kill logs pause port rename restart rm run start stats stop top unpause update wait",
	"image":     "build history import load pull push save tag rm",
	"buildx":    "build", "builder": "build", "system": "info events", "volume": "", "network": "",
}

// normalizeResources writes pod/x as two words.
func normalizeResources(args []Word) []Word {
	var out []Word
	for _, a := range args {
		kind, name, ok := strings.Cut(a.Text, "/")
		if !ok || !a.Fixed || kind == "" || name == "" || strings.ContainsAny(kind, "-.:") {
			out = append(out, a)
			continue
		}
		out = append(out, Word{Text: kind, Fixed: true}, Word{Text: name, Fixed: true})
	}
	return out
}

// sameOperand reports whether an operand is the one that a rule names.
func sameOperand(program, have, want string) bool {
	if have == want {
		return true
	}
	if program == "kubectl" || program == "oc" {
		return slices.ContainsFunc(strings.Split(have, ","), func(h string) bool { return singularKind(h) == singularKind(want) })
	}
	return strings.ContainsAny(have+want, "/.") && cleanPath(have) == cleanPath(want)
}

// cleanPath returns the path without ".", ".." and double slashes; a URL is unchanged.
func cleanPath(p string) string {
	if strings.Contains(p, "://") || p == "" {
		return p
	}
	if p[0] == '/' {
		p, _ = Follow(p, "") // a process has the root of the machine or of a container
		return p
	}
	return path.Clean(p)
}

// Follow returns an absolute path, or one below the folder cwd, cleaned as Linux follows it:
// /proc/self/root and /proc/self/cwd lead to the root and the folder of the tool, and /dev/fd to
// /proc/self/fd. It follows no other links, and none to a cwd of "". It is not known where a path
// leads that goes through an open file or the folder of another process.
func Follow(p, cwd string) (file string, known bool) {
	if !strings.HasPrefix(p, "/") {
		p = cwd + "/" + p
	}
	known = true
	if !strings.Contains(p, "/proc") && !strings.Contains(p, "/fd") && !strings.Contains(p, "/std") {
		return path.Clean(p), known
	}
	at := "/"
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." {
			continue
		}
		known = known && !ofProcess.MatchString(at)
		at = path.Join(at, part)
		if to, ok := processLinks[at]; ok {
			at = to
		}
		switch m := ofProcess.FindStringSubmatch(at); {
		case m == nil:
		case m[2] == "root":
			at, known = "/", known && m[1] != ""
		case m[1] == "":
			known = false
		case m[2] == "cwd" && cwd != "":
			at = path.Clean("/" + cwd)
		}
	}
	return at, known
}

// ofProcess matches the links of a process to folders and to open files, with whether it is the
// process that reads the link.
var ofProcess = regexp.MustCompile(`^/proc/(?:(self|thread-self)|[^/]+)(?:/task/[^/]+)?/(cwd|root|fd/[^/]+)$`)

var processLinks = map[string]string{
	"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2",
	"/proc/net": "/proc/self/net",
}

// singularKind returns the full singular name of a Kubernetes kind: po, pods and pods.v1 are pod.
func singularKind(kind string) string {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	if full, ok := kindNames[kind]; ok {
		return full
	}
	for _, end := range [][2]string{{"sses", "ss"}, {"ies", "y"}, {"s", ""}} {
		if cut, ok := strings.CutSuffix(kind, end[0]); ok && cut != "" && !strings.HasSuffix(kind, "ss") {
			return cut + end[1]
		}
	}
	return kind
}

var kindNames = map[string]string{
	"po": "pod", "ns": "namespace", "no": "node", "deploy": "deployment", "svc": "service", "cm": "configmap", "ds": "daemonset",
	"sts": "statefulset", "rs": "replicaset", "rc": "replicationcontroller", "pvc": "persistentvolumeclaim", "pv": "persistentvolume",
	"sa": "serviceaccount", "ing": "ingress", "hpa": "horizontalpodautoscaler", "cj": "cronjob", "crd": "customresourcedefinition",
	"crds": "customresourcedefinition", "netpol": "networkpolicy", "pdb": "poddisruptionbudget", "quota": "resourcequota", "limits": "limitrange",
	"sc": "storageclass", "ep": "endpoint", "ev": "event", "csr": "certificatesigningrequest", "pc": "priorityclass",
}

// canonicalGit rewrites git sub-commands that do the same thing to one form.
func canonicalGit(args []Word) []Word {
	for i, a := range args {
		switch {
		case a.Text == "push":
			return canonicalPush(args, i)
		case a.Text == "branch":
			return canonicalBranch(args)
		case a.Text == "send-pack" || a.Text == "http-push":
			return append([]Word{{Text: "push", Fixed: true}}, args[i+1:]...)
		case a.Text == "subtree" || a.Text == "for-each-repo": // git subtree push --prefix=x origin main
			if at := i + 1 + indexWord(args[i+1:], "push"); at > i {
				return slices.Concat(args[at:at+1], args[i+1:at], args[at+1:])
			}
		}
	}
	return args
}

func indexWord(args []Word, word string) int {
	return slices.IndexFunc(args, func(a Word) bool { return a.Fixed && a.Text == word })
}

// anyBranch stands for the branches of a push that names none.
const anyBranch = "\x00branch"

// pushValues are the options of git push that take the next word as their value.
const pushValues = "-o --push-option --receive-pack --exec --repo"

// addUnnamedBranch adds anyBranch to a push whose branches are not in the command: git push, git
// push --all, git push origin HEAD.
func addUnnamedBranch(program string, args []Word) []Word {
	push := GitCommand(args)
	if program != "git" || len(push) == 0 || push[0].Text != "push" {
		return args
	}
	refs := -1 // the first operand is the remote
	unnamed := false
	for i, w := range push[1:] {
		if strings.HasPrefix(w.Text, "-") {
			unnamed = unnamed || len(w.Text) > 3 && (strings.HasPrefix("--all", w.Text) || strings.HasPrefix("--branches", w.Text))
			continue
		}
		if !isListed(pushValues, push[i].Text) {
			refs++
			unnamed = unnamed || refs > 0 && movesAnyBranch.MatchString(w.Text)
		}
	}
	if unnamed || refs < 1 && !holdsWord(push, "--tags") {
		return append(slices.Clip(args), Word{Text: anyBranch, Fixed: true})
	}
	return args
}

// movesAnyBranch matches a refspec for all branches, or for the current one.
var movesAnyBranch = regexp.MustCompile(`^\+?(?::|HEAD|@|[^:]*\*[^:]*(?::.*)?)$`)

func holdsWord(args []Word, word string) bool {
	return indexWord(args, word) >= 0
}

// canonicalPush writes +main and --mirror as -f, :main as -d, and a refspec as the branch
// that it updates: HEAD:refs/heads/main is main.
func canonicalPush(args []Word, push int) []Word {
	out := slices.Clone(args)
	force, deletes, hasRemote := false, false, false
	for i := push + 1; i < len(out); i++ {
		text := out[i].Text
		force = force || len(text) > 2 && strings.HasPrefix("--mirror", text)
		if !out[i].Fixed || strings.HasPrefix(text, "-") || strings.Contains(text, "://") {
			continue
		}
		spec, plus := strings.CutPrefix(text, "+")
		force = force || plus
		if from, to, ok := strings.Cut(spec, ":"); ok && (hasRemote || !strings.Contains(spec, "@")) {
			spec, deletes = to, deletes || from == "" && to != ""
		}
		hasRemote = true
		out[i].Text = strings.TrimPrefix(strings.TrimPrefix(spec, "refs/"), "heads/")
	}
	if force {
		out = append(out, Word{Text: "-f", Fixed: true})
	}
	if deletes {
		out = append(out, Word{Text: "-d", Fixed: true})
	}
	return out
}

func canonicalBranch(args []Word) []Word {
	has := func(letter byte, long string) bool {
		return slices.ContainsFunc(args, func(a Word) bool {
			return isCluster(a.Text) && strings.IndexByte(a.Text, letter) > 0 || len(a.Text) > 3 && strings.HasPrefix(long, a.Text)
		})
	}
	if has('d', "--delete") && has('f', "--force") {
		return append(slices.Clip(args), Word{Text: "-D", Fixed: true})
	}
	return args
}

// npmCommand returns the npm command that a word means, or "". npm accepts other names,
// and every prefix that only one name has.
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

var npmNames = func() map[string]string {
	names := map[string]string{}
	for name := range strings.FieldsSeq("access adduser audit bugs cache completion config dedupe deprecate diff dist-tag docs doctor edit exec " +
		"explain explore find-dupes fund get help help-search hook init link ll login logout ls org outdated owner " +
		"pack ping pkg prefix profile prune publish query rebuild repo restart root run sbom search set shrinkwrap star stars start stop " +
		"team test token undeprecate unpublish unstar update version view whoami") {
		names[name] = name
	}
	for full, others := range map[string]string{
		"install": "install install-test it add i in ins inst insta instal isnt isnta isntal isntall", "ci": "ci install-ci-test cit clean-install-test sit clean-install ic install-clean isntall-clean",
		"uninstall": "uninstall unlink remove rm r un", "run": "run-script rum urn", "test": "tst t", "exec": "x", "init": "create innit",
		"ls": "list", "view": "info show v", "update": "up upgrade udpate", "publish": "publish", "config": "c", "login": "add-user", "rebuild": "rb",
	} {
		for name := range strings.FieldsSeq(others) {
			names[name] = full
		}
	}
	return names
}()
