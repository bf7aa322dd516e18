package shell

import "strings"

// addPowerNames adds the other names of a command that stops or restarts the machine:
// systemctl reboot, shutdown -r and init 6 are reboot, and each of these shuts
// it down.
func (x runFinder) addPowerNames(cmd Command, name string) {
	verb := powerVerb(name, cmd.Argv[1:])
	if verb == "" {
		return
	}
	forms := []string{verb, "systemctl " + verb, "shutdown " + powerOptions[verb]}
	for _, form := range forms {
		argv := fixedWords(strings.Fields(form))
		if argv[0].Text != name {
			x.line.Nested = append(x.line.Nested, Command{Argv: argv, Offset: cmd.Offset, Via: via(cmd, name)})
		}
	}
}

// powerOptions are the ends that a machine can come to, as shutdown calls them.
var powerOptions = map[string]string{"poweroff": "-P", "reboot": "-r", "halt": "-H"}

// powerVerb is what a command does to the machine, "" for nothing.
func powerVerb(name string, args []Word) string {
	switch name {
	case "poweroff", "reboot", "halt":
		return name
	case "init", "telinit":
		return firstOf(args, map[string]string{"0": "poweroff", "6": "reboot"})
	case "shutdown":
		switch {
		case shortOption(args, "c"): // takes it back
			return ""
		case shortOption(args, "r") || holdsWord(args, "--reboot"):
			return "reboot"
		case shortOption(args, "H") || holdsWord(args, "--halt"):
			return "halt"
		}
		return "poweroff"
	case "systemctl", "loginctl":
		return firstOf(args, map[string]string{
			"poweroff": "poweroff", "reboot": "reboot", "halt": "halt", "kexec": "reboot", "soft-reboot": "reboot",
			"poweroff.target": "poweroff", "reboot.target": "reboot", "halt.target": "halt", "kexec.target": "reboot",
			"runlevel0.target": "poweroff", "runlevel6.target": "reboot",
		})
	}
	return ""
}

// firstOf is what the first argument that stands in a table is there.
func firstOf(args []Word, table map[string]string) string {
	for _, a := range args {
		if to := table[a.Text]; a.Fixed && to != "" {
			return to
		}
	}
	return ""
}
