package shell

import (
	"cmp"
	"slices"
	"strings"
)

// review checks the words of one command and says why a rule that names its first words
// does not cover it.
type review struct {
	argv        []Word
	first, last int // the words before first and from last on are in the rule
	written     []string
	added       *entry // the rule's own options
	partial     bool   // argv is only the rule's words
	bare        bool   // the rule names no program, so it admits no operands and options
	starred     int    // the word that the star at the end of the rule completes; 0 if none
	like        func(Word) bool

	entry    *entry // the entry of the last sub-command
	operands int
	free     int // operands that the rule's own list admits
	given    []givenOption
	space    [8]givenOption
}

type givenOption struct {
	*option
	own   bool // given by the rule
	fixed bool // with its value, given by the rule
}

// refuse says why the rule does not cover the command; known is false if the table has
// no line for the program.
func (r *review) refuse() (why string, known bool) {
	r.given = r.space[:0]
	name := r.argv[0].Text
	e := programs[name]
	if e == nil && r.added == nil {
		return "what the options of " + clipText(name) + " do is not known", false
	}
	e = cmp.Or(e, &entry{listed: true})
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

// begin returns where the arguments of the last sub-command begin.
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

// walk checks the words from i on, for the command that e describes.
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
				e = &entry{attributes: attributes{any: e.any}, operands: e.operands, many: e.many, listed: true}
			}
		case w.Fixed && len(w.Text) > 1 && (w.Text[0] == '-' || w.Text[0] == '+' && e.plus) && !(e.ordered && r.operands > 0):
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

// variant returns the entry for calls with one of certain options. If the call then changes
// nothing, or the program reads no options after operands, the option must precede these.
func (e *entry) variant(args []Word) *entry {
	for _, v := range e.variants {
		for _, a := range args {
			name, _, _ := strings.Cut(a.Text, "=")
			option := a.Fixed && len(name) > 1 && name[0] == '-'
			if name == "--" || (v.entry.reads || v.entry.ordered) && !option {
				break
			}
			if option && slices.ContainsFunc(v.options, func(o string) bool { return o == name || v.hasLetter(name, o) }) {
				return v.entry
			}
		}
	}
	return e
}

// hasLetter reports whether a cluster of letters contains the letter of the option.
func (v variant) hasLetter(name, option string) bool {
	return !v.entry.onedash && isCluster(name) && len(option) == 2 && strings.IndexByte(name, option[1]) > 0
}

// endsInOptions reports whether the rule ends among the options before the sub-command
// at i: "kubectl -n dev" does not say what is done there.
func (r *review) endsInOptions(from, i int) bool {
	return from < r.first && !r.owns(i) && slices.ContainsFunc(r.argv[from:r.first], func(w Word) bool { return strings.HasPrefix(w.Text, "-") })
}

// walkRemote checks a command for another machine like a local one. The rule must name
// its program.
func (r *review) walkRemote(i int) string {
	if !r.owns(i) {
		return "runs " + clipText(r.argv[i].Text) + " elsewhere, which the rule does not name"
	}
	inner := review{argv: r.argv[i:], first: max(r.first-i, 0), last: r.last - i, written: r.written, partial: r.partial}
	if inner.first >= len(inner.argv) || inner.last <= 0 { // all of it is in the rule
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
	case !w.Fixed && (!e.many || n < len(e.operands)-1 || class.name != "any" && class.name != "local" && (class.name != "source" || !strings.HasPrefix(w.Text, "./"))):
		return clipText(w.Text) + " can stand for several arguments"
	case class.name == "remote" && plainWords.MatchString(w.Text) && !class.admits(w.Text):
		return "reaches " + clipText(w.Text) + ", which may be a folder whose hooks run here: write this remote in the rule"
	case !class.admits(w.Text):
		return clipText(w.Text) + " is no <" + class.name + ">, and the rule does not name it"
	case r.starred > 0 && i > r.starred && !r.like(w) && n == min(r.operands-1-(i-r.starred), len(e.operands)-1):
		return clipText(w.Text) + " is another than the rule names"
	}
	return ""
}

// takeOption checks the option, or the cluster of letters, at i. It returns the index
// of its last word.
func (r *review) takeOption(e *entry, i int) (next int, why string) {
	arg := r.argv[i].Text
	own := r.owns(i) || slices.Contains(r.written, arg)
	if e.any && !r.bare {
		return i, ""
	}
	for letters := arg; ; {
		o, rest := r.findOption(e, letters)
		switch {
		case o == nil && own && r.mayTakeNext(i):
			return i, "has the option " + clipText(arg) + ", which may take what follows as its value"
		case o == nil && own:
			return i, ""
		case o == nil || (o.ruleOnly || r.bare) && !own:
			return i, "has the option " + clipText(arg) + ", which is not among those that a rule admits"
		case r.conflicts(o, own):
			return i, "has " + clipText(arg) + " next to what the rule or the line says of it already"
		case o.value != noValue || rest == "":
			return r.takeValue(givenOption{option: o, own: own}, i, letters, rest)
		}
		r.given = append(r.given, givenOption{option: o, own: own})
		letters = letters[:1] + rest
	}
}

// findOption returns the option that an argument begins with. The rule's own options come first.
func (r *review) findOption(e *entry, arg string) (o *option, rest string) {
	if r.added != nil {
		o, rest = r.added.find(arg)
	}
	if o == nil {
		o, rest = e.find(arg)
	}
	return o, rest
}

// mayTakeNext reports whether the unknown option at i is the last word of the rule, and may take
// the next word of the command as its value.
func (r *review) mayTakeNext(i int) bool {
	return i == r.first-1 && r.last >= r.first && (r.partial || i+1 < len(r.argv)) && !strings.Contains(r.argv[i].Text, "=")
}

// takeValue checks the last option of the word at i: with its value, if it has one behind it, behind
// = or in the next word. It returns the index of the option's last word.
func (r *review) takeValue(o givenOption, i int, letters, behind string) (next int, why string) {
	arg := clipText(r.argv[i].Text)
	value, given := behind, behind != ""
	if !given {
		_, value, given = strings.Cut(letters, "=")
	}
	o.fixed = o.own && o.value != noValue
	if o.value == oneValue && !given && i+1 < len(r.argv) {
		i++
		value, given, o.fixed = r.argv[i].Text, true, r.owns(i)
		switch {
		case !r.argv[i].Fixed || !o.fixed && leadingDash(value):
			return i, "has " + clipText(value) + " where " + arg + " takes a value"
		case o.ruleOnly && !o.fixed:
			return i, "has a value of " + arg + " that the rule does not name"
		}
	}
	switch {
	case o.value == noValue && given && !o.own:
		return i, "has " + arg + " with a value that it does not take"
	case o.value == switchedOff && !given && !o.own:
		return i, "has " + arg + " without =false"
	case given && !(o.own && o.fixed) && o.admits != nil && !o.admits(value):
		return i, "has " + arg + " with the value " + clipText(value)
	}
	r.given = append(r.given, o)
	return i, ""
}

func leadingDash(value string) bool {
	return len(value) > 1 && value[0] == '-' && !isDigits(value[1:2])
}

// conflicts reports whether the option undoes or repeats what the rule says, or is the
// second of a choice.
func (r *review) conflicts(o *option, own bool) bool {
	return slices.ContainsFunc(r.given, func(g givenOption) bool {
		return g.slot == o.slot && !(own && g.own) && (o.once || g.name != o.name || (own || g.fixed) && g.value != noValue)
	}) || !own && strings.HasPrefix(o.name, "--no-") && slices.ContainsFunc(r.argv[:min(r.first, len(r.argv))], func(w Word) bool {
		name, _, _ := strings.Cut(w.Text, "=")
		return "--no-"+strings.TrimPrefix(name, "--") == o.name
	})
}
