package shell

import (
	"maps"
	"slices"
	"strings"
)

// programs is the option table. A program that is not in it is covered by a
// rule that names the whole command, and by no other.
var programs = mergeTables(texts, files, searches, builders, networks, admins, asks, map[string]program{"git": git})

func mergeTables(tables ...map[string]program) map[string]program {
	all := map[string]program{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}

// alwaysTrue is the read func of programs that change nothing unless an option
// that is not covered does.
func alwaysTrue([]Word) bool { return true }

var texts = map[string]program{
	"echo": {read: alwaysTrue, steady: true}, "true": {read: alwaysTrue, steady: true}, "false": {read: alwaysTrue, steady: true},
	":": {}, "pwd": {read: alwaysTrue, steady: true}, "cd": {read: alwaysTrue, steady: true},
	"cat": {read: alwaysTrue, steady: true}, "head": {read: alwaysTrue, steady: true}, "tail": {read: alwaysTrue, steady: true},
	"wc": {read: alwaysTrue, steady: true}, "tac": {}, "nl": {},
	"cut": {fine: "--output-delimiter"}, "tr": {}, "rev": {}, "paste": {}, "join": {},
	"comm": {fine: "--output-delimiter"}, "cmp": {}, "fold": {}, "fmt": {}, "expand": {},
	"unexpand": {}, "od": {}, "hexdump": {}, "strings": {},
	"base64": {writes: "-o --output"}, "md5sum": {}, "sha1sum": {}, "sha256sum": {},
	"sha512sum": {}, "cksum": {}, "sum": {}, "seq": {}, "sleep": {},
	"expr": {}, "basename": {}, "dirname": {}, "column": {},
	"whoami": {}, "id": {}, "uname": {}, "uptime": {}, "nproc": {},
	"ps": {}, "df": {}, "du": {}, "free": {}, "which": {read: alwaysTrue, steady: true},
	"whereis": {read: alwaysTrue}, "type": {read: alwaysTrue, steady: true}, "groups": {}, "tty": {},
	"arch":    {only: "--help --version", check: noOperand}, // macOS: arch -x86_64 program
	"printf":  {writes: "-v", check: printfFormat, read: alwaysTrue},
	"test":    {runs: "-v -R", whole: true},
	"[":       {runs: "-v -R", whole: true},
	"date":    {writes: "-s --set", check: dateOperands},
	"diff":    {runs: "-l --paginate", fine: "--output-timestamp"},
	"sort":    {runs: "--compress-program", writes: "-o --output -T --temporary-directory", loads: "--files0-from"},
	"uniq":    {check: oneOperand},
	"xxd":     {check: oneOperand},
	"sed":     {only: "-n -E -r -s -u -z -e --quiet --silent --regexp-extended --separate --unbuffered --null-data --expression --posix", check: sedScript},
	"awk":     {only: "-F -v", values: "Fv", check: awkProgram},
	"jq":      {loads: "-f --from-file -L --library-path", fine: "--raw-output --raw-output0 --join-output --ascii-output --color-output --compact-output"},
	"less":    pager,
	"more":    pager,
	"man":     {runs: "-P --pager -H --html --browser -X --gxditview -p --preprocessor -r --prompt -T --troff-device", loads: "-C --config-file -M --manpath"},
	"python":  {only: "--version -V", check: oneOption, read: alwaysTrue},
	"python3": {only: "--version -V", check: oneOption},
	"node":    {only: "--version -v", check: oneOption, read: alwaysTrue},
}

// pager reads keys behind + and, after the first line of what it looks for, also
// behind -p: less -p 'x<newline>!command'. To some systems more is less.
var pager = program{
	runs: "+ -p --pattern", writes: "-o -O --log-file --LOG-FILE",
	loads: "-k --lesskey-file --lesskey-src --lesskey-content -t -T --tag --tag-file", read: alwaysTrue,
}

// files make, move, remove and describe files. Which ones is their own work.
var files = map[string]program{
	"ls": {read: alwaysTrue, steady: true}, "stat": {read: alwaysTrue, steady: true}, "readlink": {}, "realpath": {},
	"file":  {runs: "-z -Z --uncompress --uncompress-noreport", writes: "-C --compile", loads: "-m --magic-file", read: alwaysTrue},
	"tree":  {writes: "-o --output -R", read: alwaysTrue},
	"mkdir": {}, "touch": {}, "rm": {}, "rmdir": {}, "mv": {}, "cp": {}, "ln": {}, "chmod": {}, "chown": {}, "chgrp": {},
	"truncate": {}, "tee": {}, "kill": {}, "mktemp": {},
	"split": {runs: "--filter"}, "csplit": {},
	"tar": {
		runs:   "-I --use-compress-program -F --info-script --new-volume-script --to-command --checkpoint-action --rsh-command --rmt-command -M --multi-volume -L --tape-length",
		writes: "-x --extract --get -g --listed-incremental --index-file --volno-file -A --catenate --concatenate --remove-files --overwrite -r --append -u --update --delete",
		loads:  "-T --files-from -X --exclude-from", fine: "--exclude --list --checkpoint", check: tarArguments,
	},
}

var searches = map[string]program{
	"grep": {read: alwaysTrue, steady: true}, "egrep": {}, "fgrep": {},
	"find": {
		whole: true, runs: "-exec -execdir -ok -okdir",
		writes: "-delete -fls -fprint -fprint0 -fprintf", read: alwaysTrue,
	},
	"fd":     {runs: "-x -X --exec --exec-batch -l --list-details", loads: "--ignore-file"},
	"fdfind": {runs: "-x -X --exec --exec-batch -l --list-details", loads: "--ignore-file"},
	"rg":     {runs: "--pre --hostname-bin -z --search-zip", fine: "--pre-glob", read: alwaysTrue},
	"ag":     {runs: "--pager", read: alwaysTrue},
	"ack":    {runs: "--pager --output", loads: "--ackrc", writes: "--create-ackrc", read: alwaysTrue},
}

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

// admins look after machines and clusters. The sub-commands that are listed ask
// for what is there, but for those of systemctl that act on the units they are
// given.
var admins = map[string]program{
	"systemctl": {
		runs: "-H --host", loads: "-M --machine --root --image", writes: "--firmware-setup --boot-loader-entry --boot-loader-menu --force -f",
		fine:    "--output --no-pager",
		globals: "--user --system --no-pager -q --quiet -l --full -a --all --no-legend --plain",
		subs: map[string]program{
			"status": {}, "show": {}, "cat": {}, "list-units": {}, "list-unit-files": {}, "list-timers": {}, "list-sockets": {}, "list-jobs": {},
			"list-dependencies": {}, "list-paths": {}, "is-active": {}, "is-enabled": {}, "is-failed": {}, "is-system-running": {}, "get-default": {},
			"show-environment": {}, "start": {check: unitsOnly}, "stop": {check: unitsOnly}, "restart": {check: unitsOnly}, "reload": {check: unitsOnly},
			"try-restart": {check: unitsOnly},
		},
	},
	"journalctl": {
		only: "-u -n -f -e -r -b -k -p -o -x -t -S -U -g -a -q -m --unit --user-unit --lines --follow --since --until --no-pager --boot --dmesg " +
			"--priority --reverse --output --grep --quiet --list-boots --disk-usage --utc --no-hostname --no-full --full --all --identifier " +
			"--user --system --catalog -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 --no-tail --output-fields --case-sensitive --facility --version --help",
		values: "unpotSUgb",
	},
	"ping":     {only: "-c -i -W -w -s -n -q -4 -6 -t -v -D -O -I", values: "ciWwstI"},
	"ping6":    {only: "-c -i -W -w -s -n -q -t -v -D -O -I", values: "ciWwstI"},
	"host":     {only: "-t -a -4 -6 -v -W -R -T -C -r -s -d -c -N -l -U -A", values: "tWRcN"},
	"nslookup": {only: "-type -query -debug -timeout -port -class -retry -sil -vc", whole: true, check: someOperand},
	"dig": {
		only: "-x -t -p -4 -6 -q -c -u -r " + addPlus("short all answer cmd stats question comments authority additional multiline dnssec tcp recurse "+
			"search ttlid trace time tries retry bufsize subnet nssearch identify edns ndots onesoa qr showsearch yaml fail"),
		values: "xtpqc",
	},
	"helm": {
		runs: "--post-renderer --post-renderer-args", writes: "--output-dir", fine: "--output",
		loads: "--kubeconfig --kube-apiserver --kube-as-user --kube-as-group --kube-ca-file --kube-token --kube-tls-server-name --registry-config " +
			"--repository-cache --repository-config --keyring --ca-file --cert-file --key-file --burst-limit",
		pairs: "-n --namespace",
		subs: map[string]program{
			"list": {}, "ls": {}, "status": {}, "history": {}, "version": {}, "env": {}, "lint": {}, "template": {},
			"get":    {subs: map[string]program{"all": {}, "hooks": {}, "manifest": {}, "metadata": {}, "notes": {}, "values": {}}},
			"show":   {subs: map[string]program{"all": {}, "chart": {}, "crds": {}, "readme": {}, "values": {}}},
			"search": {subs: map[string]program{"repo": {}, "hub": {}}},
			"repo":   {subs: map[string]program{"list": {}}},
		},
	},
	"terraform": terraform,
	"tofu":      terraform,
}

// terraform: plan and validate start the providers that the folder names, which
// is their own work, as running tests is that of go test.
var terraform = program{
	whole: true, folder: true, writes: "-out -generate-config-out -state-out -backup", loads: "-chdir -var-file -state -plugin-dir -backend-config -target-file",
	subs: map[string]program{
		"version": {}, "validate": {}, "plan": {}, "show": {}, "output": {}, "graph": {}, "providers": {subs: map[string]program{}},
		"fmt":       {only: "-check -diff -recursive -list -no-color -write", check: checksFormat},
		"state":     {subs: map[string]program{"list": {}, "show": {}}},
		"workspace": {subs: map[string]program{"list": {}, "show": {}}},
	},
}

var asks = map[string]program{
	"lscpu": {}, "lsblk": {}, "lsmod": {}, "who": {}, "w": {}, "last": {}, "cal": {}, "pgrep": {}, "printenv": {}, "getent": {}, "getconf": {},
	"locale": {}, "hostname": {only: "-f -s -i -I -d -A --fqdn --short --ip-address --all-ip-addresses --domain", check: noOperand},
	"netstat": {}, "ss": {only: "-t -u -l -n -p -a -x -w -s -4 -6 -e -m -o -i -r -H -O --tcp --udp --listening --numeric --processes --all --summary"},
	"lsof": {only: "-i -p -n -P -t -u -c -a -d -l -U", values: "ipucd"},
}

// addPlus are options of dig that can each be turned off.
func addPlus(names string) string {
	var b strings.Builder
	for n := range strings.FieldsSeq(names) {
		b.WriteString("+" + n + " +no" + n + " ")
	}
	return b.String()
}

// unitsOnly refuses targets, which can stop the machine, and files.
func unitsOnly(args []Word) string {
	for _, a := range operands(args) {
		if !a.Fixed || strings.Contains(a.Text, "/") || strings.HasSuffix(a.Text, ".target") || strings.ContainsAny(a.Text, "*?[") {
			return clipText(a.Text) + " is more than a unit"
		}
	}
	return ""
}

// checksFormat lets terraform fmt through where it only checks.
func checksFormat(args []Word) string {
	for _, a := range args {
		switch strings.TrimLeft(a.Text, "-") {
		case "check", "check=true", "write=false":
			return ""
		}
	}
	return "without -check it writes files"
}

// someOperand is for programs that read commands if they are told nothing.
func someOperand(args []Word) string {
	ops := operands(args)
	if len(ops) == 0 || ops[0].Text == "-" {
		return "reads commands"
	}
	return ""
}
