package shell

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// program is what is known of one program, so that an allow rule for it covers
// its own work and nothing else: no option that runs another program, writes a
// file that no rule names, or loads configuration. Lists of options are
// separated by blanks; "-o" means every cluster of short options with an o in
// it, "--output" also its abbreviations.
type program struct {
	runs   string // options that run another program
	writes string // options that write a file
	loads  string // options that load configuration or code
	fine   string // long options that only look dangerous, or like the beginning of one that is
	only   string // if set, the only options that are covered
	values string // letters of only that take the rest of the word as their value
	// whole: options are whole words after one or two dashes, as of find and go.
	whole bool
	// subs are the sub-commands that are covered, nil if the program has none.
	// What stands in the lists above holds for all of them.
	subs map[string]program
	// globals are options that may stand before the sub-command, pairs those of
	// them that take the next word.
	globals, pairs string
	// parts are what in the name of a long option speaks against it, in addition to
	// looksBad.
	parts string
	// check looks at the arguments; it returns what speaks against them.
	check func(args []Word) string

	read   func(args []Word) bool // such a call changes nothing; nil: it may
	steady bool                   // no argument makes it change anything
	folder bool                   // the folder that it runs in configures it
}

// looksBad are parts of names of long options that, of any program, are not
// covered unless its entry says that they are fine.
var looksBad = strings.Fields("exec command program pager editor script shell hook plugin config output rcfile init-file " +
	"eval preload registry cmd helper log-file logfile write template profile rsh proxy require import module")

func isKnown(name string) bool {
	_, ok := programs[name]
	return ok
}

// findRefused says what speaks against an allow rule that covers the command by
// its first words; known is false if nothing is known of the program.
func findRefused(argv []Word) (why string, known bool) {
	name := argv[0].Text
	p, ok := programs[name]
	if !ok {
		return "what the options of " + clipText(name) + " do is not known", false
	}
	return p.refuseArguments(name, argv[1:], nil), true
}

// refuseArguments looks at the arguments of the program or of one of its sub-commands.
// outer are the entries of the commands around it.
func (p program) refuseArguments(name string, args []Word, outer []program) string {
	p.whole = p.whole || len(outer) > 0 && outer[0].whole
	chain := append(outer, p)
	if p.subs == nil {
		return p.arguments(name, args, chain)
	}
	i := p.argumentsBefore(args)
	if i >= len(args) {
		return p.arguments(name, nil, chain)
	}
	sub, ok := p.subs[args[i].Text]
	if !ok || !args[i].Fixed {
		return fmt.Sprintf("%s %s can do more than its name says", name, clipText(args[i].Text))
	}
	return sub.refuseArguments(name+" "+args[i].Text, args[i+1:], chain)
}

func (p program) argumentsBefore(args []Word) int {
	i := 0
	for i < len(args) && args[i].Fixed {
		name, _, given := strings.Cut(args[i].Text, "=")
		switch {
		case isListed(p.pairs, name) && !given:
			i += 2
		case isListed(p.pairs, name), isListed(p.globals, args[i].Text):
			i++
		default:
			return i
		}
	}
	return i
}

func (p program) arguments(name string, args []Word, chain []program) string {
	for _, a := range args {
		if !a.Fixed || len(a.Text) < 2 || a.Text[0] != '-' && a.Text[0] != '+' {
			continue
		}
		if what := judgeOption(chain, a.Text); what != "" {
			return fmt.Sprintf("%s %s %s", name, clipText(a.Text), what)
		}
	}
	for _, c := range chain {
		if c.check == nil {
			continue
		}
		if what := c.check(args); what != "" {
			return name + ": " + what
		}
	}
	return ""
}

func judgeOption(chain []program, arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	long := strings.HasPrefix(arg, "--")
	for _, c := range chain {
		if long && isListed(c.fine, name) {
			return ""
		}
	}
	spelled := arg // kubectl and npm take --cache_dir for --cache-dir
	if long {
		spelled = strings.ReplaceAll(name, "_", "-") + arg[len(name):]
	}
	for _, c := range chain {
		if what := cmp.Or(c.option(arg), c.option(spelled)); what != "" {
			return what
		}
		if long && isListed(c.only, name) {
			return ""
		}
	}
	if name, _, _ = strings.Cut(spelled, "="); long && isSuspicious(chain, name) {
		return "may run a program, write a file or load configuration"
	}
	return ""
}

func isSuspicious(chain []program, name string) bool {
	parts := looksBad
	for _, c := range chain {
		if c.parts != "" {
			parts = slices.Concat(parts, strings.Fields(c.parts))
		}
	}
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
}

func (p program) option(arg string) string {
	switch {
	case p.only != "" && !p.isAmong(p.only, arg):
		return "is not among the options that are covered"
	case p.isAmong(p.runs, arg):
		return "runs another program"
	case p.isAmong(p.writes, arg):
		return "writes or removes something that the rule does not name"
	case p.isAmong(p.loads, arg):
		return "loads configuration or code"
	}
	return ""
}

// isAmong says whether an argument uses one of the options. With p.only, it says
// whether it uses nothing else.
func (p program) isAmong(options, arg string) bool {
	if options == "" {
		return false
	}
	name, _, _ := strings.Cut(arg, "=")
	if p.whole {
		return isListed(options, "-"+strings.TrimLeft(name, "-"))
	}
	if p.only == options {
		return isListed(options, name) || isCluster(arg) && p.onlyLetters(arg[1:])
	}
	if strings.HasPrefix(name, "--") || len(name) > 3 {
		long := "--" + strings.TrimLeft(name, "-+")
		for o := range strings.FieldsSeq(options) {
			if strings.HasPrefix(o, "--") && len(long) > 2 && strings.HasPrefix(o, long) {
				return true
			}
		}
	}
	return isCluster(arg) && strings.ContainsAny(arg[1:], letters(options)) || arg[0] == '+' && isListed(options, "+")
}

func (p program) onlyLetters(cluster string) bool {
	allowed := letters(p.only)
	for i := range len(cluster) {
		switch {
		case strings.IndexByte(allowed, cluster[i]) < 0:
			return false
		case strings.IndexByte(p.values, cluster[i]) >= 0:
			return true
		}
	}
	return true
}

func isCluster(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' }

func letters(options string) string {
	var b strings.Builder
	for o := range strings.FieldsSeq(options) {
		if len(o) == 2 && o[0] == '-' {
			b.WriteByte(o[1])
		}
	}
	return b.String()
}

func isListed(list, word string) bool {
	return slices.Contains(strings.Fields(list), word)
}

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
	return checkHandedOn(args, "-A -W -D -F --allow --warn --deny --forbid --cap-lints", true)
}

// checksOnly refuses what cargo fmt hands on to the formatter except options that only check.
func checksOnly(args []Word) string {
	return checkHandedOn(args, "--check -l -v -q --files-with-diff --verbose --quiet", false)
}

// checkHandedOn looks at what stands behind "--": only these options are let through,
// that each take the next word if valued is set.
func checkHandedOn(args []Word, options string, valued bool) string {
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
