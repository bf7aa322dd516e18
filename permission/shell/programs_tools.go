package shell

import "strings"

var builders = map[string]program{
	"go": {
		whole: true, folder: true,
		runs:   "-exec -toolexec -vettool -ldflags -gcflags -asmflags -gccgoflags -compiler -fixtool",
		writes: "-o -outputdir -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace -pkgdir -debug-trace -debug-runtime-trace -debug-actiongraph -artifacts",
		loads:  "-overlay -modfile -C -workfile",
		check:  goArguments,
		subs: map[string]program{
			"build": {}, "test": {}, "vet": {writes: "-fix"}, "run": {}, "install": {}, "get": {}, "fmt": {}, "clean": {},
			"version": {}, "list": {}, "doc": {runs: "-http"},
			"env": {writes: "-w -u"},
			"mod": {subs: map[string]program{"download": {}, "tidy": {}, "verify": {}, "graph": {}, "why": {}, "vendor": {}}},
		},
	},
	"npm":  javascript("--script-shell --shell --call -c --node-options --editor --viewer --git --python --nodedir --make --browser", "-C --prefix --userconfig --globalconfig --node-gyp --registry --cache --cafile --local-prefix --globalignorefile --tmp --proxy --https-proxy --init-module --onload-script", alwaysTrue),
	"pnpm": javascript("--script-shell --shell-emulator --node-options", "-C --dir --prefix --config --userconfig --global-dir --pnpmfile --global-pnpmfile --npm-path", nil),
	"yarn": javascript("--script-shell --node-options --use-yarnrc", "--cwd --prefix --mutex --har", nil),
	"make": {
		folder: true, runs: "--eval -E", loads: "-f --file --makefile -C --directory -I --include-dir -e --environment-overrides --temp-stdin",
		fine: "--output-sync", writes: "-o --old-file -W --what-if --new-file --assume-new --assume-old", check: noAssignment,
	},
	"cargo": {
		folder: true, runs: "--open --config", loads: "-C -Z --manifest-path --lockfile-path", writes: "--target-dir --out-dir --artifact-dir",
		globals: "-q --quiet -v --verbose --offline --locked --frozen", fine: "--profile --target",
		check: noTargetFile,
		subs: map[string]program{
			"build": {}, "b": {}, "check": {}, "c": {}, "test": {}, "t": {}, "run": {}, "r": {}, "bench": {}, "clippy": {writes: "--fix", check: lintsOnly},
			"fmt": {check: checksOnly}, "doc": {}, "tree": {}, "metadata": {}, "update": {}, "fetch": {}, "version": {},
		},
	},
	"pytest": {
		folder: true, runs: "--pdbcls --tx --trace --pudb --usepdb", parts: "json xml html csv file dir path save record store snapshot update looponfail", writes: "--cov-report --html --junitxml --junit-xml --basetemp --debug --report-log --resultlog --pastebin",
		loads: "-p -c -W --pythonwarnings --config-file -o --override-ini --rootdir --confcutdir --import-mode --ds --dc", fine: "--no-header", check: noArgumentFile,
	},
	"pip":  pip,
	"pip3": pip,
}

// javascript is a package manager that runs the scripts of package.json.
//
// lists is set where listing packages is known to change nothing.
func javascript(runs, loads string, lists func([]Word) bool) program {
	return program{
		folder: true, runs: runs, loads: loads, fine: "--ignore-scripts --global", parts: "-dir -folder timing",
		subs: map[string]program{
			"run": {}, "run-script": {}, "test": {}, "t": {}, "start": {}, "build": {}, "lint": {},
			"install": {}, "i": {}, "ci": {}, "outdated": {}, "audit": {check: noRepair}, "why": {},
			"ls": {read: lists}, "list": {read: lists}, "view": {}, "version": {only: "--json", check: noOperand},
		},
		globals: "--silent -s --version -v",
	}
}

var pip = program{
	runs: "--python --editor --keyring-provider --install-option", loads: "--config-settings -C --global-option --build-option --isolated -i --index-url --extra-index-url -f --find-links --cert --client-cert --trusted-host --proxy --pypi-url",
	writes:  "-t --target --prefix --root --src --log --report --cache-dir --download-dir --build",
	globals: "--version -V", fine: "--requirement --pre",
	subs: map[string]program{
		"list": {read: alwaysTrue}, "show": {read: alwaysTrue}, "freeze": {}, "check": {}, "install": {}, "uninstall": {},
	},
}

// networks talk to other machines. Reaching them is their own work.
var networks = map[string]program{
	"curl": {
		only: "-s -S -f -L -I -i -v -k -g -G -4 -6 -N -# -m -A -e -r -H -z --silent --show-error --fail --fail-with-body --location --head --include " +
			"--verbose --insecure --globoff --get --ipv4 --ipv6 --no-buffer --progress-bar --max-time --connect-timeout --user-agent " +
			"--referer --range --header --compressed --retry --retry-delay --max-redirs --http1.1 --http2 --no-progress-meter --url --version -V --max-filesize",
		values: "mAerHz", check: curlArguments,
	},
	"wget": {
		runs: "-e --execute --use-askpass", loads: "-i --input-file --input-metalink --config --load-cookies",
		writes: "-O -o -a --output-document --output-file --append-output --post-data --post-file --body-data --body-file --save-cookies -P --directory-prefix --warc-file --rejected-log --hsts-file --method --trust-server-names --content-disposition --warc-tempdir " +
			"--stats-dns --stats-ocsp --stats-server --stats-site --stats-tls --tls-session-file --ocsp-file --hpkp-file --dns-cache-preload --gnupg-homedir --plugin --local-plugin", fine: "--reject",
	},
	"ssh": {
		runs: "-o -S -I", loads: "-F -i -E", writes: "-L -R -D -W -w -J -A -X -Y -O -M",
	},
	"rsync": {
		runs: "-e --rsh --rsync-path --daemon --server -M --remote-option", loads: "-f --filter --files-from --password-file --config --include-from --exclude-from --read-batch --early-input --dparam",
		writes: "--log-file --write-batch --only-write-batch -T --temp-dir --partial-dir --backup-dir", fine: "--exclude --include",
	},
	"docker": {
		loads: "-H --host --config --context -c", folder: true,
		subs: map[string]program{
			"ps": {read: alwaysTrue}, "images": {read: alwaysTrue}, "inspect": {read: alwaysTrue}, "logs": {read: alwaysTrue}, "version": {read: alwaysTrue},
			"info": {read: alwaysTrue}, "top": {}, "port": {}, "diff": {}, "history": {}, "stats": {}, "search": {},
			"container": {subs: dockerLists}, "image": {subs: dockerLists}, "network": {subs: dockerLists}, "volume": {subs: dockerLists},
		},
		globals: "--version -v",
	},
	"kubectl": {
		runs:   "--edit",
		loads:  "--kubeconfig -s --server --as --as-group --as-uid --token --client-key --client-certificate --certificate-authority --kuberc",
		writes: "--cache-dir --profile-output --log-file --log-dir", fine: "--output", pairs: "-n --namespace",
		subs: map[string]program{
			"get": {}, "describe": {}, "logs": {}, "top": {}, "version": {}, "api-resources": {}, "api-versions": {}, "explain": {},
			"cluster-info": {subs: map[string]program{}}, "apply": {}, "create": {}, "delete": {}, "scale": {}, "label": {}, "annotate": {},
			"rollout": {}, "patch": {}, "cordon": {}, "uncordon": {}, "drain": {}, "wait": {},
		},
	},
	"gh": {
		runs: "-w --web -e --editor", folder: true, pairs: "-R --repo",
		subs: map[string]program{
			"repo": {subs: map[string]program{"view": {read: alwaysTrue}, "list": {}}}, "issue": {subs: ghLists}, "pr": {subs: ghLists},
			"run": {subs: ghLists}, "release": {subs: ghLists}, "status": {read: alwaysTrue}, "workflow": {subs: ghLists},
		},
	},
}

var (
	dockerLists = map[string]program{"ls": {}, "list": {}, "inspect": {}}
	ghLists     = map[string]program{"list": {read: alwaysTrue}, "view": {}, "status": {}, "diff": {}, "checks": {}}
)

// goArguments refuses profiles under their other names, and files that are
// given after -args.
func goArguments(args []Word) string {
	for _, a := range args {
		if strings.HasPrefix(a.Text, "-") && (strings.Contains(a.Text, "profile") || strings.Contains(a.Text, "-test.") || strings.Contains(a.Text, "exec")) {
			return clipText(a.Text) + " writes a file or runs a program"
		}
	}
	return ""
}

// noArgumentFile refuses @file, which stands for the options in that file.
func noArgumentFile(args []Word) string {
	for _, a := range args {
		if strings.HasPrefix(a.Text, "@") {
			return clipText(a.Text) + " takes its options from a file"
		}
	}
	return ""
}

// noRepair refuses npm audit fix, which installs other packages.
func noRepair(args []Word) string {
	for _, a := range operands(args) {
		if !a.Fixed || a.Text == "fix" {
			return clipText(a.Text) + " installs packages"
		}
	}
	return ""
}

// noAssignment refuses NAME=value, by which make takes any program for any
// other.
func noAssignment(args []Word) string {
	for _, a := range operands(args) {
		if strings.Contains(a.Text, "=") {
			return clipText(a.Text) + " sets a variable"
		}
	}
	return ""
}

// curlArguments refuses headers from files, and files under any name: f[i-i]le:
// is file:.
func curlArguments(args []Word) string {
	for _, a := range args {
		if strings.HasPrefix(a.Text, "@") || isCluster(a.Text) && strings.Contains(a.Text, "H@") || strings.Contains(a.Text, "=@") {
			return clipText(a.Text) + " sends a file"
		}
		scheme, _, _ := strings.Cut(strings.ToLower(a.Text), ":")
		if strings.TrimSpace(scheme) == "file" || strings.ContainsAny(scheme, "[{") || strings.Contains(a.Text, "{") {
			return clipText(a.Text) + " may read a file"
		}
	}
	return ""
}
