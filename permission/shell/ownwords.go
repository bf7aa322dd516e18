package shell

import (
	"slices"
	"strings"
)

// ownWords are programs whose arguments are their own sub-commands, targets and names:
// make rm does not run rm. A command follows only after one of the words listed with a
// program.
var ownWords = map[string]string{
	"make": "", "gmake": "", "ninja": "", "mvn": "", "mage": "", "tox": "",
	"bazel": "run", "nx": "run-commands exec", "pre-commit": "",
	"aws": "ssm ecs ec2-instance-connect emr codebuild batch lambda", "gcloud": "ssh run-command exec", "gsutil": "", "az": "run-command ssh exec", "heroku": "run run:detached ps:exec",
	"vercel": "exec", "netlify": "exec dev:exec", "fly": "ssh console exec", "flyctl": "ssh console exec", "doctl": "ssh", "firebase": "emulators:exec", "wrangler": "",
	"apt": "", "apt-get": "", "brew": "sh exec ruby", "pacman": "", "apk": "", "snap": "run", "flatpak": "run", "conda": "run", "mamba": "run",
	"redis-cli": "eval evalsha script function", "docker": "exec run create attach", "podman": "exec run create unshare machine ssh", "nerdctl": "exec run create",
	"multipass": "exec shell", "minikube": "ssh kubectl", "rclone": "", "s3cmd": "", "mc": "", "skopeo": "",
	"pulumi": "", "ollama": "", "pipx": "run", "rustup": "run", "pyenv": "exec", "rbenv": "exec", "asdf": "exec", "volta": "run", "gem": "exec", "svn": "", "hg": "", "etcdctl": "exec-watch lock elect watch",
}

// hasOwnWords reports whether the plain arguments of a program are its own words.
func hasOwnWords(name string, args []Word) bool {
	runners, ok := ownWords[name]
	return ok && !slices.ContainsFunc(args, func(a Word) bool { return !a.Fixed || isListed(runners, a.Text) || a.Text == "--" })
}

// guessArguments is guessCommands for the arguments of a program. If the program has
// its own words, only options, words after options that may name a program, settings
// and texts may be commands.
func (x runFinder) guessArguments(cmd Command, name string, args []Word) {
	if !hasOwnWords(name, args) {
		x.guessCommands(args)
		return
	}
	for i, w := range args {
		if i > 0 && mayNameProgram(args[i-1].Text) {
			x.line.Nested = append(x.line.Nested, Command{Argv: args[i:], Offset: cmd.Offset, Via: via(cmd, name)})
			x.guessCommands([]Word{w})
		} else if !isOwnWord(w) {
			x.guessCommands([]Word{w})
		}
	}
}

func isOwnWord(w Word) bool {
	return w.Text != "" && w.Text[0] != '-' && !strings.Contains(w.Text, "=") && !isText(w.Text)
}

// mayNameProgram reports whether the word after an option may be a program.
func mayNameProgram(option string) bool {
	return strings.HasPrefix(option, "-") && !strings.Contains(option, "=") && (isListed("-c -e -x -o", option) ||
		slices.ContainsFunc(runningParts, func(part string) bool { return strings.Contains(option, part) }))
}

// runningParts are parts of the names of options that may be followed by a program.
var runningParts = strings.Fields("exec command cmd program pager editor script shell hook helper render proxy rsh entrypoint filter")
