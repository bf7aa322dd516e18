package shell

import (
	"slices"
	"strings"
)

// git: sub-commands that are not listed, such as submodule, bisect,
// filter-branch, rebase, difftool, mergetool, worktree, hook, daemon, clone and
// init, load configuration, run programs, or may be an alias; config only reads.
var git = program{
	folder:  true,
	globals: "--no-pager -P --no-optional-locks --version",
	runs:    "--ext-diff --textconv -O --open-files-in-pager --upload-pack --receive-pack --exec --help",
	writes:  "--output",
	loads:   "--template --config --no-index",
	fine: "--no-ext-diff --no-textconv --name-only --show-function --function-context --porcelain --oneline " +
		"--show-current --no-output --no-verify --ignore-submodules --submodule",
	subs: map[string]program{
		"status": {read: alwaysTrue}, "log": {read: alwaysTrue}, "diff": {read: alwaysTrue}, "show": {read: alwaysTrue},
		"ls-files": {read: alwaysTrue}, "ls-tree": {read: alwaysTrue}, "rev-parse": {read: alwaysTrue}, "rev-list": {read: alwaysTrue},
		"cat-file": {runs: "--filters", loads: "--batch-command", fine: "--batch", read: alwaysTrue},
		"describe": {read: alwaysTrue}, "shortlog": {read: alwaysTrue}, "blame": {read: alwaysTrue}, "annotate": {},
		"grep": {read: alwaysTrue}, "show-ref": {}, "merge-base": {}, "name-rev": {},
		"for-each-ref": {runs: "-s --shell --perl --python --tcl"}, "diff-tree": {},
		"diff-index": {}, "diff-files": {}, "cherry": {}, "range-diff": {},
		"count-objects": {}, "whatchanged": {}, "check-ignore": {},
		"check-attr": {}, "version": {}, "show-branch": {},
		"config": {only: "--get --get-all --get-regexp --list -l --global --local --system --show-origin --show-scope --name-only --null -z", check: readsConfig, read: alwaysTrue},
		"branch": {writes: "-d -D -m -M -c -C -f --delete --move --copy --force --edit-description", read: listsRefs("arvqi", "--all --remotes --verbose --quiet --show-current --abbrev --no-abbrev", "--list")},
		"tag":    {writes: "-d -f --delete --force", read: listsRefs("lni0123456789", "", "-l --list")},
		"remote": {subs: map[string]program{"show": {check: networkRemote, read: namesOnly}, "get-url": {read: alwaysTrue}}, globals: "-v --verbose", read: alwaysTrue},
		"stash": {subs: map[string]program{
			"list": {}, "show": {}, "push": {}, "save": {}, "apply": {},
		}, globals: "-u -q -k -a -p --include-untracked --quiet --keep-index"},
		"reflog": {subs: map[string]program{"show": {read: alwaysTrue}, "exists": {read: alwaysTrue}}, read: alwaysTrue},
		"add":    {}, "mv": {}, "rm": {}, "restore": {}, "checkout": {}, "switch": {}, "reset": {}, "clean": {},
		"commit": {loads: "-t --template"}, "revert": {runs: "-s --strategy"}, "cherry-pick": {runs: "-s --strategy"},
		"merge": {runs: "-s --strategy"}, "apply": {writes: "--build-fake-ancestor", loads: "--directory --unsafe-paths"},
		"fetch":     {runs: "--upload-pack", loads: "--recurse-submodules", check: networkRemote},
		"pull":      {runs: "--upload-pack -s --strategy", loads: "--recurse-submodules", check: networkRemote},
		"push":      {runs: "--receive-pack --exec", loads: "--recurse-submodules", check: networkRemote},
		"ls-remote": {runs: "--upload-pack --exec", check: networkRemote},
	},
}

// readsConfig refuses git config unless it is told to read.
func readsConfig(args []Word) string {
	for _, a := range args {
		if strings.HasPrefix(a.Text, "--get") || a.Text == "--list" || a.Text == "-l" {
			return ""
		}
	}
	return "without --get or --list it sets what other commands do"
}

// listsRefs says whether git branch or git tag lists: with a name it makes one,
// unless an option makes a pattern or a commit of it. Only what is listed here
// is an option: every other may change something under one of its abbreviations
// (--u is --unset-upstream) or revoke what makes a list (--no-list).
func listsRefs(letters, options, listing string) func([]Word) bool {
	known, lister := setOf(options+" "+listing+" "+refOptions), setOf(listing+" --contains --no-contains --merged --no-merged --points-at")
	return func(args []Word) bool {
		lists := false
		for _, a := range args {
			name, _, _ := strings.Cut(a.Text, "=")
			switch {
			case !a.Fixed:
				return false
			case a.Text == "" || a.Text[0] != '-':
				if !lists {
					return false
				}
			case !known[name] && (!isCluster(a.Text) || strings.Trim(a.Text[1:], letters) != ""):
				return false
			}
			lists = lists || lister[name]
		}
		return true
	}
}

// refOptions are options that git branch and git tag have in common and that
// change nothing.
const refOptions = "--ignore-case --sort --format --column --no-column --color --no-color --omit-empty " +
	"--contains --no-contains --merged --no-merged --points-at"

// namesOnly says whether no argument is an address, which would be connected to.
func namesOnly(args []Word) bool {
	for _, a := range args {
		if !a.Fixed || strings.ContainsAny(a.Text, ":/@") {
			return false
		}
	}
	return true
}

// networkRemote refuses remotes that are folders, whose hooks and programs
// would run here, and those that name a program.
func networkRemote(args []Word) string {
	for _, a := range args {
		_, value, _ := strings.Cut(a.Text, "=")
		for _, t := range []string{a.Text, value} {
			if strings.Contains(t, "::") || strings.HasPrefix(t, "/") || strings.HasPrefix(t, ".") || strings.HasPrefix(t, "file:") || strings.HasPrefix(t, "~") {
				return clipText(t) + " as a remote runs the hooks and programs of that folder"
			}
		}
	}
	for _, r := range repositories(args) {
		if host, _, ok := strings.Cut(r, ":"); strings.Contains(host, "/") || !ok && strings.HasSuffix(r, ".git") {
			return clipText(r) + " as a remote runs the hooks and programs of that folder"
		}
	}
	return ""
}

// remoteValues are options of push, fetch and pull that take the next word.
var remoteValues = strings.Fields("-o -j -X --push-option --server-option --jobs --depth --deepen --shallow-since --shallow-exclude " +
	"--refmap --negotiation-tip --filter --strategy-option --cleanup --sort --recurse-submodules-default --submodule-prefix " +
	"--negotiation-restrict --negotiation-include")

// repositories are the words that may name the repository: the first operand,
// and what --repo is given.
func repositories(args []Word) []string {
	var found []string
	for i := 0; i < len(args); i++ {
		a := args[i].Text
		name, value, given := strings.Cut(a, "=")
		switch {
		case len(name) > 4 && strings.HasPrefix("--repository", name) && !strings.HasPrefix("--recurse", name):
			if !given && i+1 < len(args) {
				i++
				value = args[i].Text
			}
			found = append(found, value)
		case !given && slices.ContainsFunc(remoteValues, func(v string) bool {
			return a == v || len(a) > 3 && strings.HasPrefix(v, a) || isCluster(a) && len(v) == 2 && a[len(a)-1] == v[1]
		}):
			i++
		case len(a) > 1 && a[0] == '-':
		default:
			return append(found, a)
		}
	}
	return found
}
