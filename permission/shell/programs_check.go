package shell

import (
	"regexp"
	"strings"
)

// operands are the arguments that are no options. A dash alone is one.
func operands(args []Word) []Word {
	var out []Word
	for _, a := range args {
		if !a.Fixed || len(a.Text) < 2 || a.Text[0] != '-' {
			out = append(out, a)
		}
	}
	return out
}

// oneOption is for interpreters that may be asked for their version only.
func oneOption(args []Word) string {
	if len(args) != 1 {
		return "runs code"
	}
	return noOperand(args)
}

func noOperand(args []Word) string {
	if len(operands(args)) > 0 {
		return "runs " + clipText(operands(args)[0].Text)
	}
	return ""
}

// oneOperand is for programs whose second operand is a file to be written. The
// value of an option counts as an operand: rather too many than too few.
func oneOperand(args []Word) string {
	ops := operands(args)
	if len(ops) > 1 || len(ops) == 1 && !ops[0].Fixed {
		return "a second file is written"
	}
	return ""
}

// printfFormat refuses %n, with which bash sets the variable that an argument
// names, PATH included.
func printfFormat(args []Word) string {
	for _, a := range args {
		if !a.Fixed || setsVariable.MatchString(a.Text) {
			return "%n sets a variable"
		}
	}
	return ""
}

var setsVariable = regexp.MustCompile(`%[^a-zA-Z%]*[hljzLtq]*n`)

func dateOperands(args []Word) string {
	for _, a := range operands(args) {
		if a.Fixed && len(a.Text) > 0 && strings.Trim(a.Text, "0123456789.") == "" {
			return "a number sets the clock"
		}
	}
	return ""
}

// tarArguments looks at the old form "tar xf a.tar" and at remote archives.
func tarArguments(args []Word) string {
	if len(args) > 0 && args[0].Fixed && !strings.HasPrefix(args[0].Text, "-") {
		if strings.ContainsAny(args[0].Text, "xIFATXgruML") {
			return clipText(args[0].Text) + " extracts, runs a program, or loads a list"
		}
	}
	for _, a := range args {
		if strings.Contains(a.Text, ":") {
			return "an archive on another machine is reached by running a program"
		}
	}
	return ""
}

// awkProgram lets programs through that can neither start others nor write.
func awkProgram(args []Word) string {
	for _, a := range args {
		if strings.ContainsAny(a.Text, "|>@") || strings.Contains(a.Text, "\\\n") || strings.Contains(a.Text, "system") || strings.Contains(a.Text, "getline") {
			return "the program can run others or write files"
		}
	}
	return ""
}

// noTargetFile refuses targets of cargo that are files: such a file names the
// linker.
func noTargetFile(args []Word) string {
	for i, a := range args {
		value, given := strings.CutPrefix(a.Text, "--target=")
		if a.Text == "--target" && i+1 < len(args) {
			value, given = args[i+1].Text, true
		}
		if given && (strings.Contains(value, "/") || strings.HasSuffix(value, ".json")) {
			return clipText(value) + " names the linker"
		}
	}
	return ""
}

// lintsOnly refuses what cargo clippy hands on to the compiler but for levels of
// lints: -o, --emit and @file write, -C linker= runs.
func lintsOnly(args []Word) string {
	return handsOn(args, "-A -W -D -F --allow --warn --deny --forbid --cap-lints", true)
}

// checksOnly refuses what cargo fmt hands on to the formatter but for approval requests.
func checksOnly(args []Word) string {
	return handsOn(args, "--check -l -v -q --files-with-diff --verbose --quiet", false)
}

// handsOn looks at what stands behind "--": only these options are let through,
// that each take the next word if valued is set.
func handsOn(args []Word, options string, valued bool) string {
	i := 0
	for i < len(args) && args[i].Text != "--" {
		i++
	}
	for i++; i < len(args); i++ {
		name, _, given := strings.Cut(args[i].Text, "=")
		short := valued && len(name) > 2 && strings.HasPrefix(name, "-") && isListed(options, name[:2]) // -Dwarnings
		if !args[i].Fixed || !isListed(options, name) && !short {
			return clipText(args[i].Text) + " is handed on to another program"
		}
		if valued && !given && !short {
			i++
		}
	}
	return ""
}
