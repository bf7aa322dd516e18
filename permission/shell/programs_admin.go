package shell

import "strings"

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
		only: "-x -t -p -4 -6 -q -c -u -r " + addPlus("short all answer cmd stats approval request comments authority additional multiline dnssec tcp recurse "+
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

// asks print what the machine is and what runs on it.
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
