package shell

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// entry is what an allow rule with :* or a wildcard admits for one command: one line of
// options.txt, where its words are explained.
type entry struct {
	attributes
	options  map[string]*option
	sets     []*entry // the $sets in the line
	digits   *option  // -#
	operands []operandClass
	many     bool   // any number of the last operand
	behind   *entry // what may follow --
	check    func([]Word) string
	subs     map[string]*entry
	variants []variant
	listed   bool // it has its own line, not only sub-commands or variants
}

// attributes are the flags of a line, such as reads and folder.
type attributes struct{ reads, lists, steady, folder, onedash, ordered, plans, remote, any, plus bool }

type variant struct {
	options []string
	entry   *entry
}

type operandClass struct {
	name   string
	admits func(string) bool
}

type option struct {
	name     string
	slot     string // the choice that it belongs to, or its name without --no-
	once     bool   // a command may have one option of the choice, once
	ruleOnly bool
	value    valueKind
	admits   func(string) bool // nil: any value
}

type valueKind uint8

const (
	noValue valueKind = iota
	oneValue
	gluedValue  // in the same word, or none
	switchedOff // =false in the same word; without it the option is on
)

//go:embed options.txt
var optionLines string

// programs is the option table, by program and then by sub-command.
var programs, wordSets = mustReadTable(optionLines)

// lineReader reads the words of lines. It reads each $set once per program.
type lineReader struct {
	sets map[string]string
	read map[string]*entry
}

func mustReadTable(lines string) (map[string]*entry, map[string]string) {
	table, r := map[string]*entry{}, lineReader{map[string]string{}, map[string]*entry{}}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.IndexByte(line[1:], ':') + 1 // the name may be :
		name, words := line[:at], strings.TrimSpace(line[at+1:])
		if name[0] == '$' {
			r.sets[name] = words
			continue
		}
		if err := r.addLine(table, name, words); err != nil {
			panic(fmt.Sprintf("options.txt: %s: %v", name, err))
		}
	}
	return table, r.sets
}

// addLine adds one line of the table. Two lines for one command are an error.
func (r lineReader) addLine(table map[string]*entry, name, words string) error {
	var e *entry
	level := table
	for word := range strings.FieldsSeq(name) {
		if strings.HasPrefix(word, "-") {
			v, err := r.newEntry(strings.Fields(name)[0], words)
			e.variants = append(e.variants, variant{strings.Split(word, "|"), v})
			return err
		}
		if e = level[word]; e == nil {
			e = &entry{subs: map[string]*entry{}}
			level[word] = e
		}
		level = e.subs
	}
	read, err := r.newEntry(strings.Fields(name)[0], words)
	if err == nil && e.listed {
		err = errors.New("has two lines")
	}
	if err != nil {
		return err
	}
	read.subs, read.variants = e.subs, e.variants
	*e = *read
	return nil
}

// newEntry reads the words of a line about a command of the program.
func (r lineReader) newEntry(program, words string) (*entry, error) {
	e := &entry{options: map[string]*option{}, listed: true}
	at := e
	for word := range strings.FieldsSeq(words) {
		if word == "--" {
			at.behind = &entry{options: map[string]*option{}}
			at = at.behind
			continue
		}
		if err := r.addWord(at, program, word); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (r lineReader) addWord(e *entry, program, word string) error {
	if flag := e.flag(word); flag != nil {
		*flag = true
		e.reads = e.reads || e.steady
		return nil
	}
	switch {
	case word[0] == '$':
		return r.addSet(e, program, word)
	case word[0] == '%':
		if e.check = argumentChecks[word[1:]]; e.check == nil {
			return fmt.Errorf("there is no check %s", word)
		}
	case word[0] == '<':
		name, ok := strings.CutSuffix(word, "...")
		name = strings.Trim(name, "<>")
		if e.many || classes[name] == nil || !strings.HasPrefix(word, "<"+name+">") {
			return fmt.Errorf("%s is not an operand; write one of %s", word, classNames())
		}
		e.many, e.operands = ok, append(e.operands, operandClass{name, classes[name]})
	default:
		return e.addChoice(program, strings.Split(word, ","))
	}
	return nil
}

// flag returns the attribute with that name, or nil.
func (e *entry) flag(word string) *bool {
	switch word {
	case "reads":
		return &e.reads
	case "lists":
		return &e.lists
	case "steady":
		return &e.steady
	case "folder":
		return &e.folder
	case "onedash":
		return &e.onedash
	case "ordered":
		return &e.ordered
	case "plans":
		return &e.plans
	case "remote":
		return &e.remote
	case "-*":
		return &e.any
	}
	return nil
}

func (r lineReader) addSet(e *entry, program, name string) error {
	set := r.read[program+name]
	if words, ok := r.sets[name]; !ok {
		return fmt.Errorf("there is no line %s", name)
	} else if set == nil {
		var err error
		if set, err = r.newEntry(program, words); err != nil {
			return err
		}
		r.read[program+name] = set
	}
	e.sets, e.plus, e.onedash = append(e.sets, set), e.plus || set.plus, e.onedash || set.onedash
	if len(set.operands) > 0 {
		e.operands, e.many = append(e.operands, set.operands...), set.many
	}
	if e.digits == nil {
		e.digits = set.digits
	}
	return nil
}

func (e *entry) addChoice(program string, words []string) error {
	first := ""
	for _, word := range words {
		o, err := newOption(word)
		if err != nil {
			return err
		}
		o.once = len(words) > 1
		first = cmp.Or(first, o.slot)
		if o.once {
			o.slot = first
		}
		o.slot = program + " " + o.slot
		e.plus = e.plus || o.name[0] == '+'
		if o.name == "-#" {
			e.digits = o
		}
		e.options[o.name] = o
	}
	return nil
}

func newOption(word string) (*option, error) {
	o := &option{}
	word, o.ruleOnly = strings.CutPrefix(word, "!")
	name, value, valued := strings.Cut(word, "=")
	if len(name) < 2 || name[0] != '-' && name[0] != '+' || strings.ContainsAny(name, "<>|?") {
		return nil, fmt.Errorf("%q is not an option, a <class> of operands or an attribute", word)
	}
	o.name, o.slot = name, name
	if rest, ok := strings.CutPrefix(name, "--no-"); ok {
		o.slot = "--" + rest
	}
	if !valued {
		return o, nil
	}
	o.value = oneValue
	if rest, ok := strings.CutPrefix(value, "?"); ok {
		value, o.value = rest, gluedValue
	}
	switch class, ok := strings.CutPrefix(value, "<"); {
	case ok:
		if o.admits = classes[strings.TrimSuffix(class, ">")]; o.admits == nil {
			return nil, fmt.Errorf("%s is not a class; write one of %s", value, classNames())
		}
	case value == "false" && o.value == oneValue:
		o.value = switchedOff
		o.admits = func(v string) bool { return v == value }
	case value != "":
		allowed := strings.Split(value, "|")
		o.admits = func(v string) bool { return slices.Contains(allowed, v) }
	}
	return o, nil
}

// sub returns the entry of a sub-command, or nil.
func (e *entry) sub(word string) *entry {
	if e == nil {
		return nil
	}
	return e.subs[word]
}

// find returns the option that an argument begins with; rest is what follows a letter
// in the same word.
func (e *entry) find(arg string) (o *option, rest string) {
	name, _, _ := strings.Cut(arg, "=")
	switch {
	case e.onedash && arg[0] == '-':
		if o = e.option("-" + strings.TrimLeft(name, "-")); o == nil && strings.HasPrefix(name, "--") {
			o = e.option(name)
		}
	case arg[0] == '+' || strings.HasPrefix(arg, "--"):
		o = e.option(name)
	default:
		if o = e.option(name); o == nil && len(arg) > 2 {
			o, rest = e.option(arg[:2]), arg[2:]
		}
	}
	if o == nil && e.digits != nil && isDigits(arg[1:]) {
		return e.digits, ""
	}
	return o, rest
}

func (e *entry) option(name string) *option {
	o := e.options[name]
	for i := 0; o == nil && i < len(e.sets); i++ {
		o = e.sets[i].option(name)
	}
	return o
}

func isCluster(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' }

func isKnown(name string) bool { return programs[name] != nil }

func isSteady(name string) bool { return isKnown(name) && programs[name].steady }

func isListed(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

func shortOption(args []Word, letters string) bool {
	return slices.ContainsFunc(args, func(a Word) bool { return isCluster(a.Text) && strings.ContainsAny(a.Text, letters) })
}

// operands returns the arguments that are not options. A lone dash is an operand.
func operands(args []Word) []Word {
	return slices.DeleteFunc(slices.Clone(args), func(a Word) bool { return a.Fixed && len(a.Text) > 1 && a.Text[0] == '-' })
}

// classes are the kinds of operands and values that the option table can name.
var classes = map[string]func(string) bool{
	"any":     func(string) bool { return true },
	"local":   func(s string) bool { return isLocal(s) && !strings.HasPrefix(s, "@") },
	"package": func(s string) bool { return isLocal(s) && !strings.Contains(s, ":") },
	"word":    func(s string) bool { return plainWords.MatchString(s) && !strings.HasSuffix(s, ".json") },
	"name":    regexp.MustCompile(`^\w[\w.:-]*$`).MatchString,
	"formula": regexp.MustCompile(`^\w[\w+-]*(?:@[\d.]+)?$`).MatchString,
	"script":  regexp.MustCompile(`^\w[\w.:/-]*$`).MatchString,
	"image":   regexp.MustCompile(`^\w[\w.:/@-]*$`).MatchString,
	"target":  regexp.MustCompile(`^[\w.][\w.:/%+-]*$`).MatchString,
	"host":    regexp.MustCompile(`^[\w\[][\w.:@\[\]%-]*$`).MatchString,
	"dig":     regexp.MustCompile(`^@?[\w.:-]+$`).MatchString,
	"format":  func(s string) bool { return strings.HasPrefix(s, "+") },
	"file":    func(s string) bool { return !strings.HasPrefix(s, "+") }, // + begins a command to less
	"header":  func(s string) bool { return !strings.HasPrefix(s, "@") }, // @ reads headers from a file
	"printf":  func(s string) bool { return !setsVariable.MatchString(s) },
	"remote":  isRemote,
	"ref":     isRef,
	"url":     isURL,
	"unit":    isUnit,
	"source":  func(s string) bool { return isLocal(s) && sources.MatchString(s) },
}

var (
	plainWords = regexp.MustCompile(`^\w[\w.-]*$`)
	// setsVariable matches %n, with which bash's printf sets the variable that an
	// argument names, including PATH.
	setsVariable = regexp.MustCompile(`%[^a-zA-Z%]*[hljzLtq]*n`)
	// sources matches nothing that go and kustomize may take from the network: versions,
	// addresses, and module paths, which have a dot in their first segment.
	sources   = regexp.MustCompile(`^(?:(?:\.+|[^./@:]+)(?:/[^@:]*)?|[^/@:]+\.go)$`)
	bootUnits = regexp.MustCompile(`^(?:systemd-|debug-shell|emergency|rescue|reboot|poweroff|halt|kexec|suspend|hibernate|ctrl-alt-del)`)
	webScheme = regexp.MustCompile(`^(?i:https?://|[\w.-]+(?::[0-9]+)?(?:[/?#]|$))`)
)

func classNames() string { return strings.Join(slices.Sorted(maps.Keys(classes)), ", ") }

// isLocal reports whether s is a name, or a path in the working folder of the line or below it.
func isLocal(s string) bool {
	return s != "" && !strings.ContainsAny(s[:1], "/~") && !strings.Contains(s, "://") && !strings.Contains(s, `\`) &&
		!slices.Contains(strings.Split(s, "/"), "..")
}

// isRemote admits addresses and the two usual names. Git takes any other word also for a
// folder, whose hooks and programs would run here. A single letter can be a drive.
func isRemote(s string) bool {
	host, _, address := strings.Cut(s, ":")
	return s == "origin" || s == "upstream" || isRef(s) && address && len(host) > 1 && !strings.Contains(host, "/")
}

// isRef refuses the notation for forced pushes and deletions.
func isRef(s string) bool {
	return s != "" && !strings.ContainsAny(s[:1], "/.~+:") && !strings.Contains(s, "::") && !strings.HasPrefix(s, "file:")
}

// isURL refuses all spellings of file URLs: curl reads f[i-i]le: as file:.
func isURL(s string) bool { return webScheme.MatchString(s) && !strings.Contains(s, "{") }

// isUnit refuses files, all targets, and units that can stop the machine.
func isUnit(s string) bool {
	return s != "" && !strings.ContainsAny(s, "/*?[") && !strings.HasSuffix(s, ".target") && !bootUnits.MatchString(s)
}

// argumentChecks check all arguments of programs for which a list of options cannot say
// what the program does.
var argumentChecks = map[string]func([]Word) string{
	"sed": sedScript, "tar": tarArguments, "operand": someOperand, "jq": refuseReach(jqReach),
	// tree takes the next word for the value of L, P and I, and reads on within this one: -Po '*' out writes
	// out. xxd takes the first letter alone: -il in out writes out.
	"tree": refuseReach(`^-[a-zA-Z0-9]*[LPI].*[^0-9]`), "xxd": refuseReach(`^-(?:[a-oq-zA-Z][a-zA-Z]|p[a-rt-zA-Z]|ps.)`),
	"awk": refuseReach(`(?s)@|(?:^|[^|])\|\s*[^|\s]|print.*>|\\\r?\n|system|getline|ARG[CV]|ENVIRON|SYMTAB`),
	"yq":  refuseReach(jqReach + `|env\(|envsubst|(?:^|\.\.|\.\d|[^.\w])\w*(?:load|system|eval)(?:\w+(?:[^\w"]|$)|\s*[^\s\w".:/-]|\s+["\w.])`),
}

// jqReach takes names behind a dot, a dollar sign or a quote, and before a colon, for fields and
// variables. yq also finds an operator within a word, as in "x"orload("f").
const jqReach = `(?:^|[^\w."$])(?:import|include|modulemeta)\b\s*(?:[^\s:]|$)`

// tarArguments checks the old form "tar xf a.tar" and remote archives.
func tarArguments(args []Word) string {
	if len(args) > 0 && args[0].Fixed && !strings.HasPrefix(args[0].Text, "-") && strings.Trim(args[0].Text, "ctvfzjJahpkWOSl") != "" {
		return clipText(args[0].Text) + " extracts, runs a program, or loads a list"
	}
	for _, a := range args {
		if strings.Contains(a.Text, ":") {
			return "an archive on another machine is reached by running a program"
		}
	}
	return ""
}

// refuseReach refuses programs that match the expression, because they can start other
// programs, write files, or read files and variables that the line does not name.
func refuseReach(expr string) func([]Word) string {
	reach := regexp.MustCompile(expr)
	return func(args []Word) string {
		if slices.ContainsFunc(args, func(a Word) bool { return reach.MatchString(a.Text) }) {
			return "the program can run others, or reach files and variables that the line does not name"
		}
		return ""
	}
}

// someOperand refuses calls without an operand, for programs that then read commands.
func someOperand(args []Word) string {
	if len(operands(args)) == 0 {
		return "reads commands"
	}
	return ""
}
