package shell

import (
	"slices"
	"strings"
)

// sameStart says whether a command begins with the tokens of a deny or ask
// rule: word by word, or with the same program, sub-command and options in
// another order. "rm -rf" is also rm -r x -f, "git push" also git -C d push.
func sameStart(tokens []string, argv []Word) answer {
	if !argv[0].Fixed {
		return argv[0].mayBe(tokens[0])
	}
	if argv[0].Text != tokens[0] && base(argv[0].Text) != base(tokens[0]) {
		return no
	}
	if strings.Contains(tokens[0], "/") && strings.Contains(argv[0].Text, "/") && argv[0].Text != tokens[0] {
		return no // both name a folder, and not the same
	}
	if len(tokens) == 1 {
		return yes
	}
	best := inOrder(tokens[1:], argv[1:])
	if best == yes {
		return yes
	}
	return max(best, normal(base(tokens[0]), tokens[1:], argv[1:]))
}

// mayBe says whether the first argument that a word stands for, if it stands
// for any, can be the token.
func (w Word) mayBe(token string) answer {
	if strings.HasPrefix(token, w.head) || strings.Contains(w.Text, "/") {
		return maybe
	}
	return no
}

// inOrder compares word by word.
func inOrder(tokens []string, args []Word) answer {
	for i, t := range tokens {
		switch {
		case i == len(args):
			return no
		case !args[i].Fixed:
			return args[i].mayBe(t)
		case args[i].Text != t:
			return no
		}
	}
	return yes
}

// parts are arguments without their order.
type parts struct {
	operands []string
	before   []bool // an option stands right before the operand
	letters  string
	long     []string
	unknown  int // operands before the first word that is not known; -1 if all are
}

// split takes arguments apart.
func split(program string, args []Word) parts {
	p := parts{unknown: -1}
	option, ended := false, false
	for _, a := range canonical(program, args) {
		switch {
		case !a.Fixed:
			if p.unknown < 0 {
				p.unknown = len(p.operands)
			}
			option = false
		case ended || len(a.Text) < 2 || a.Text[0] != '-':
			p.operands = append(p.operands, a.Text)
			p.before = append(p.before, option)
			option = false
		case a.Text == "--":
			ended = true
		default:
			p.add(program, a.Text)
			option = !strings.Contains(a.Text, "=")
		}
	}
	return p
}

// canonical writes arguments of the same meaning in the same way, of programs
// that are often denied with them: kill -s KILL is kill -9, git push +main is
// git push -f main, and git branch -d -f is git branch -D.
func canonical(program string, args []Word) []Word {
	switch program {
	case "kill", "pkill", "killall":
		return signals(args)
	case "git":
		for _, a := range args {
			switch a.Text {
			case "push":
				return forced(args)
			case "branch":
				return deleted(args)
			}
		}
	}
	return args
}

func signals(args []Word) []Word {
	var out []Word
	for i := 0; i < len(args); i++ {
		a := args[i]
		if (a.Text == "-s" || a.Text == "-n" || a.Text == "--signal") && i+1 < len(args) && args[i+1].Fixed {
			i++
			a.Text = "-" + args[i].Text
		}
		if value, ok := strings.CutPrefix(a.Text, "--signal="); ok {
			a.Text = "-" + value
		}
		if name, ok := strings.CutPrefix(a.Text, "-"); ok && strings.TrimPrefix(strings.ToUpper(name), "SIG") == "KILL" {
			a.Text = "-9"
		}
		out = append(out, a)
	}
	return out
}

func forced(args []Word) []Word {
	if slices.ContainsFunc(args, func(a Word) bool { return a.Fixed && strings.HasPrefix(a.Text, "+") }) {
		return append(slices.Clip(args), Word{Text: "-f", Fixed: true})
	}
	return args
}

func deleted(args []Word) []Word {
	has := func(letter byte, long string) bool {
		return slices.ContainsFunc(args, func(a Word) bool {
			return cluster(a.Text) && strings.IndexByte(a.Text, letter) > 0 || len(a.Text) > 3 && strings.HasPrefix(long, a.Text)
		})
	}
	if has('d', "--delete") && has('f', "--force") {
		return append(slices.Clip(args), Word{Text: "-D", Fixed: true})
	}
	return args
}

func (p *parts) add(program, option string) {
	name, _, _ := strings.Cut(option, "=")
	if strings.HasPrefix(name, "--") || programs[program].whole {
		p.long = append(p.long, "-"+strings.TrimLeft(name, "-"))
		return
	}
	p.letters += option[1:]
}

// normal compares without the order.
func normal(program string, tokens []string, args []Word) answer {
	words := make([]Word, len(tokens))
	for i, t := range tokens {
		words[i] = Word{Text: t, Fixed: true}
	}
	want, have := split(program, words), split(program, args)
	options := have.hasOptions(program, want)
	operands := have.hasOperands(want.operands)
	if options && operands == yes {
		return yes
	}
	if have.unknown >= 0 && operands != no {
		return maybe
	}
	return no
}

// hasOptions says whether all options of a pattern are given.
func (p parts) hasOptions(program string, want parts) bool {
	for i := range len(want.letters) {
		if !p.hasLetter(program, want.letters[i]) {
			return false
		}
	}
	for _, l := range want.long {
		if !p.hasLong(program, l) {
			return false
		}
	}
	return true
}

func (p parts) hasLetter(program string, letter byte) bool {
	if strings.IndexByte(p.letters, letter) >= 0 {
		return true
	}
	for long, short := range synonyms[program] {
		if short != string(letter) {
			continue
		}
		if len(long) == 1 && strings.Contains(p.letters, long) || len(long) > 1 && p.given("-"+long) {
			return true
		}
	}
	return false
}

func (p parts) hasLong(program, long string) bool {
	if p.given(long) {
		return true
	}
	short := synonyms[program][strings.TrimPrefix(long, "-")]
	return short != "" && p.hasLetter(program, short[0])
}

// given says whether a long option is there, in full or abbreviated.
func (p parts) given(long string) bool {
	for _, l := range p.long {
		if l == long || len(l) > 2 && strings.HasPrefix(long, l) {
			return true
		}
	}
	return false
}

// hasOperands says whether the operands begin with the wanted ones. Operands
// right after an option may be its value and are then left out.
func (p parts) hasOperands(want []string) answer {
	if len(want) == 0 {
		return yes
	}
	best := no
	for i := range len(p.operands) + 1 {
		switch p.from(i, want) {
		case yes:
			return yes
		case maybe:
			best = maybe
		}
		if i == len(p.operands) || !p.before[i] {
			break
		}
	}
	return best
}

func (p parts) from(i int, want []string) answer {
	for j, w := range want {
		if p.unknown >= 0 && i+j >= p.unknown {
			return maybe
		}
		if i+j >= len(p.operands) || p.operands[i+j] != w {
			return no
		}
	}
	return yes
}

// synonyms are long options, and second letters, of the same meaning as a
// letter, of programs that are often denied with certain options. A push with a
// lease is a forced push like the others.
var synonyms = map[string]map[string]string{
	"rm":    {"recursive": "r", "R": "r", "force": "f"},
	"cp":    {"recursive": "r", "R": "r", "force": "f", "archive": "a"},
	"chmod": {"recursive": "R"}, "chown": {"recursive": "R"}, "chgrp": {"recursive": "R"},
	"git":  {"force": "f", "force-with-lease": "f", "delete": "d", "all": "a", "no-verify": "n"},
	"kill": {"KILL": "9", "SIGKILL": "9"},
}
