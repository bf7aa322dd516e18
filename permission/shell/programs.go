package shell

import "maps"

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

// texts print what they are told, what they read, or what the system is.
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

// searches look for files and in files.
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
