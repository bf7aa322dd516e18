package shell

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// entry is what an allow rule with :* or a wildcard admits of one command: one
// line of options.txt, which describes its words.
type entry struct {
	attributes
	options  map[string]*option
	sets     []*entry // the $sets that it names
	digits   *option  // -#
	operands []operandClass
	many     bool   // any number of the last operand
	behind   *entry // what stands behind --
	check    func([]Word) string
	subs     map[string]*entry
	variants []variant
	listed   bool // it has a line of its own, not only sub-commands or variants
}

// attributes are the words of a line without signs.
type attributes struct{ reads, lists, steady, folder, onedash, plans, remote, any, plus bool }

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
	once     bool   // of its choice at most one stands in a command, once
	ruleOnly bool
	value    valueKind
	admits   func(string) bool // nil: any value
}

type valueKind uint8

const (
	noValue valueKind = iota
	oneValue
	gluedValue  // in the same word, or none
	switchedOff // =false in the same word: alone the option is true
)

//go:embed options.txt
var optionLines string

// programs is the option table, by program and below it by sub-command.
var programs, wordSets = mustReadTable(optionLines)

// lineReader reads the words of lines. It reads a $set once for each program.
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
		at := strings.IndexByte(line[1:], ':') + 1 // the name of : is one
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
	if err != nil || e.listed {
		return errors.Join(err, alreadyListed(e.listed))
	}
	read.subs, read.variants = e.subs, e.variants
	*e = *read
	return nil
}

func alreadyListed(is bool) error {
	if is {
		return errors.New("has two lines")
	}
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
			return fmt.Errorf("%s is no operand; write one of %s", word, classNames())
		}
		e.many, e.operands = ok, append(e.operands, operandClass{name, classes[name]})
	default:
		return e.addChoice(program, strings.Split(word, ","))
	}
	return nil
}

// flag is the attribute of that name; nil if there is none.
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
		if first == "" {
			first = o.slot
		}
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
		return nil, fmt.Errorf("%q is no option, no <class> of operands and no attribute", word)
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
			return nil, fmt.Errorf("%s is no class; write one of %s", value, classNames())
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

// sub is the entry of a sub-command; nil if there is none.
func (e *entry) sub(word string) *entry {
	if e == nil {
		return nil
	}
	return e.subs[word]
}

// find finds the option that an argument begins with; rest is what follows a
// letter in the same word.
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

// review looks at the words of one command and says what speaks against a rule
// that names its first words.
type review struct {
	argv        []Word
	first, last int // the words before first and from last on stand in the rule
	written     []string
	added       *entry // the rule's own options
	partial     bool   // argv is only the rule's words
	bare        bool   // the rule names no program: no operands and no options
	starred     int    // the word that the star at the end of the rule completes; 0: none
	like        func(Word) bool

	entry    *entry // the one that the command ended in
	operands int
	free     int // operands that the rule's own list admits
	given    []givenOption
	space    [8]givenOption
}

type givenOption struct {
	*option
	own   bool // by the rule
	fixed bool // with its value, by the rule
}

// refuse says what speaks against the command; known is false if the table has
// no line for it.
func (r *review) refuse() (why string, known bool) {
	r.given = r.space[:0]
	name := r.argv[0].Text
	e := programs[name]
	if e == nil && r.added == nil {
		return "what the options of " + clipText(name) + " do is not known", false
	}
	if e == nil {
		e = &entry{listed: true}
	}
	if why = r.walk(e, 1); why != "" {
		return clipText(strings.TrimSpace(r.path())) + " " + why, true
	}
	if e = r.entry; e.check != nil && !r.partial {
		if what := e.check(r.argv[r.begin():]); what != "" {
			return name + ": " + what, true
		}
	}
	return "", true
}

// begin is where the arguments of the last sub-command begin.
func (r *review) begin() int {
	e := programs[r.argv[0].Text]
	for i := 1; i < len(r.argv) && e != nil && e != r.entry; i++ {
		if sub := e.subs[r.argv[i].Text]; sub != nil {
			if e = sub; e == r.entry || slices.ContainsFunc(e.variants, func(v variant) bool { return v.entry == r.entry }) {
				return i + 1
			}
		}
	}
	return 1
}

func (r *review) path() string {
	return strings.Join((&Command{Argv: r.argv[:min(r.begin(), len(r.argv))]}).Args(), " ")
}

func (r *review) owns(i int) bool { return i < r.first || i >= r.last }

// walk goes through the words from i on, of the command that e is about.
func (r *review) walk(e *entry, i int) string {
	e = e.variant(r.argv[i:])
	r.entry = e
	from := i
	for ; i < len(r.argv); i++ {
		w := r.argv[i]
		switch {
		case w.Fixed && w.Text == "--":
			switch {
			case r.added != nil && r.added.behind != nil:
				e, r.operands, r.free, r.added = r.added.behind, 0, 0, nil
			case e.behind != nil:
				e, r.operands = e.behind, 0
			default:
				e = &entry{operands: e.operands, many: e.many, listed: true}
			}
		case w.Fixed && len(w.Text) > 1 && (w.Text[0] == '-' || w.Text[0] == '+' && e.plus):
			next, why := r.takeOption(e, i)
			if why != "" {
				return why
			}
			i = next
		case len(e.subs) > 0:
			sub := e.subs[w.Text]
			switch {
			case sub != nil && w.Fixed && r.endsInOptions(from, i):
				return "is more than the rule names: write the rule with the sub-command"
			case sub != nil && w.Fixed:
				return r.walk(sub, i+1)
			case r.added != nil && r.owns(i):
				e = &entry{listed: true}
				r.entry = e
			default:
				return clipText(w.Text) + " can do more than its name says"
			}
		case e.remote && r.operands == len(e.operands):
			return r.walkRemote(i)
		default:
			if why := r.takeOperand(e, i); why != "" {
				return why
			}
		}
	}
	if !r.entry.listed && r.added == nil {
		return "can do more than its name says"
	}
	return ""
}

// variant is the entry for calls that have one of certain options; before all
// operands, where the option makes that the call changes nothing.
func (e *entry) variant(args []Word) *entry {
	for _, v := range e.variants {
		for _, a := range args {
			name, _, _ := strings.Cut(a.Text, "=")
			option := a.Fixed && len(name) > 1 && name[0] == '-'
			if name == "--" || v.entry.reads && !option {
				break
			}
			if option && slices.ContainsFunc(v.options, func(o string) bool { return o == name || v.hasLetter(name, o) }) {
				return v.entry
			}
		}
	}
	return e
}

// hasLetter says whether a cluster of letters has that of the option.
func (v variant) hasLetter(name, option string) bool {
	return !v.entry.onedash && isCluster(name) && len(option) == 2 && strings.IndexByte(name, option[1]) > 0
}

// endsInOptions says whether the rule ends among the options before the
// sub-command at i: "kubectl -n dev" says nothing of what is done there.
func (r *review) endsInOptions(from, i int) bool {
	return from < r.first && !r.owns(i) && slices.ContainsFunc(r.argv[from:r.first], func(w Word) bool { return strings.HasPrefix(w.Text, "-") })
}

// walkRemote looks at a command for another machine as at one of its own. The
// rule has to name its program.
func (r *review) walkRemote(i int) string {
	if !r.owns(i) {
		return "runs " + clipText(r.argv[i].Text) + " elsewhere, which the rule does not name"
	}
	inner := review{argv: r.argv[i:], first: max(r.first-i, 0), last: r.last - i, written: r.written, partial: r.partial}
	if inner.first >= len(inner.argv) || inner.last <= 0 { // all of it stands in the rule
		return ""
	}
	why, _ := inner.refuse()
	return why
}

func (r *review) takeOperand(e *entry, i int) string {
	w, n := r.argv[i], r.operands
	r.operands++
	if !r.owns(i) && r.added != nil && len(r.added.operands) > 0 {
		e, n = r.added, r.free
		r.free++
	}
	switch {
	case r.owns(i):
		return ""
	case r.bare:
		return "does more than print its own help: the rule names no program"
	case n >= len(e.operands) && !e.many:
		return clipText(w.Text) + " is an argument that the rule does not name"
	}
	n = min(n, len(e.operands)-1)
	switch class := e.operands[n]; {
	case !w.Fixed && (!e.many || n < len(e.operands)-1 || class.name != "any" && class.name != "local"):
		return clipText(w.Text) + " can stand for several arguments"
	case !class.admits(w.Text):
		return clipText(w.Text) + " is no <" + class.name + ">, and the rule does not name it"
	case r.starred > 0 && i > r.starred && !r.like(w) && n == min(r.operands-1-(i-r.starred), len(e.operands)-1):
		return clipText(w.Text) + " is another than the rule names"
	}
	return ""
}

// takeOption looks at the option, or the cluster of letters, at i. It returns the
// place of its last word.
func (r *review) takeOption(e *entry, i int) (next int, why string) {
	arg := r.argv[i].Text
	own := r.owns(i) || slices.Contains(r.written, arg)
	if e.any && !r.bare {
		return i, ""
	}
	for at := arg; ; {
		o, rest := e.find(at)
		if r.added != nil {
			if a, more := r.added.find(at); a != nil {
				o, rest = a, more
			}
		}
		switch {
		case o == nil && own && i == r.first-1 && r.last >= r.first && (r.partial || i+1 < len(r.argv)) && !strings.Contains(arg, "="):
			return i, "has the option " + clipText(arg) + ", which may take what follows as its value"
		case o == nil && own:
			return i, ""
		case o == nil || o.ruleOnly && !own || r.bare && !own:
			return i, "has the option " + clipText(arg) + ", which is not among those that a rule admits"
		case r.conflicts(o, own):
			return i, "has " + clipText(arg) + " beside what the rule or the line says of it already"
		}
		value, given := rest, rest != ""
		if rest == "" {
			_, value, given = strings.Cut(at, "=")
		}
		fixed := own && o.value != noValue
		switch {
		case o.value == noValue && rest != "": // a cluster
			r.given = append(r.given, givenOption{o, own, false})
			at = at[:1] + rest
			continue
		case o.value == noValue && given && !own:
			return i, "has " + clipText(arg) + " with a value that it does not take"
		case o.value == switchedOff && !given && !own:
			return i, "has " + clipText(arg) + " without =false"
		case o.value == oneValue && !given:
			if i++; i < len(r.argv) {
				value, given = r.argv[i].Text, true
				fixed = r.owns(i)
				if !r.argv[i].Fixed || !r.owns(i) && leadingDash(value) {
					return i, "has " + clipText(value) + " where " + clipText(arg) + " takes a value"
				}
				if o.ruleOnly && !r.owns(i) {
					return i, "has a value of " + clipText(arg) + " that the rule does not name"
				}
			}
		}
		if given && !(own && fixed) && o.admits != nil && !o.admits(value) {
			return i, "has " + clipText(arg) + " with the value " + clipText(value)
		}
		r.given = append(r.given, givenOption{o, own, fixed})
		return i, ""
	}
}

func leadingDash(value string) bool {
	return len(value) > 1 && value[0] == '-' && !isDigits(value[1:2])
}

// conflicts says whether the option takes back, or says again, what the rule says,
// or is the second of a choice.
func (r *review) conflicts(o *option, own bool) bool {
	return slices.ContainsFunc(r.given, func(g givenOption) bool {
		return g.slot == o.slot && !(own && g.own) && (o.once || g.name != o.name || (own || g.fixed) && g.value != noValue)
	}) || !own && strings.HasPrefix(o.name, "--no-") && slices.ContainsFunc(r.argv[:min(r.first, len(r.argv))], func(w Word) bool {
		name, _, _ := strings.Cut(w.Text, "=")
		return "--no-"+strings.TrimPrefix(name, "--") == o.name
	})
}

func isCluster(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' }

func isKnown(name string) bool { return programs[name] != nil }

func isSteady(name string) bool { return isKnown(name) && programs[name].steady }

func isListed(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// operands are the arguments that are no options. A dash alone is one.
func operands(args []Word) []Word {
	return slices.DeleteFunc(slices.Clone(args), func(a Word) bool { return a.Fixed && len(a.Text) > 1 && a.Text[0] == '-' })
}
