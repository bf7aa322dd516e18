package shell

import (
	"slices"
	"strings"
)

// sameStart reports whether a command begins with the tokens of a deny or ask rule:
// word by word, or with the same program, sub-command and options in another order. "rm
// -rf" is also rm -r x -f, and "git push" is also git -C d push.
func sameStart(tokens []string, argv []Word) certainty {
	if !argv[0].Fixed {
		return argv[0].mayBe(tokens[0])
	}
	if firstByte(argv[0].Text) != firstByte(tokens[0]) {
		return no // the usual case, decided cheaply
	}
	want, have := spellNames(fixedWords(tokens)), spellNames(argv)
	if !sameProgram(want[0].Text, have[0].Text) {
		return no
	}
	if len(want) == 1 {
		return yes
	}
	best := matchInOrder(want[1:], have[1:])
	if best == yes {
		return yes
	}
	program := withoutVersion(programName(want[0].Text))
	asWritten := func(_ string, args []Word) []Word { return args }
	best = max(best, matchNormal(program, want[1:], addUnnamedBranch(program, have[1:]), canonicalArguments))
	return max(best, matchNormal(program, want[1:], have[1:], asWritten))
}

// mayBe reports whether the first argument that a word stands for, if any, can be the
// token.
func (w Word) mayBe(token string) certainty {
	if len(w.head) <= len(token) && strings.EqualFold(token[:len(w.head)], w.head) || strings.Contains(w.Text, "/") {
		return maybe
	}
	return no
}

func matchInOrder(tokens, args []Word) certainty {
	for i, t := range tokens {
		switch {
		case i == len(args):
			return no
		case !args[i].Fixed:
			return args[i].mayBe(t.Text)
		case args[i].Text != t.Text:
			return no
		}
	}
	return yes
}

type parts struct {
	operands []string
	before   []bool // an option is right before the operand
	letters  string
	long     []string
	unknown  int // operands before the first unknown word; -1 if all words are known
}

func splitParts(program string, args []Word) parts {
	p := parts{unknown: -1}
	option, ended := false, false
	for _, a := range args {
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

func (p *parts) add(program, option string) {
	name, _, _ := strings.Cut(option, "=")
	if strings.HasPrefix(name, "--") || isKnown(program) && programs[program].onedash || oneDash[program] {
		p.long = append(p.long, "-"+strings.TrimLeft(name, "-"))
		return
	}
	p.letters += option[1:]
}

// oneDash are programs whose long options begin with one dash or two.
var oneDash = setOf("terraform tofu packer vault consul nomad")

// matchNormal compares without regard to the order, in the form that form returns.
func matchNormal(program string, tokens, args []Word, form func(string, []Word) []Word) certainty {
	want, have := splitParts(program, form(program, tokens)), splitParts(program, form(program, args))
	options := have.hasOptions(program, want)
	operands := have.hasOperands(program, want)
	if options && operands != no {
		return operands
	}
	if have.unknown >= 0 && operands != no {
		return maybe
	}
	return no
}

func (p parts) hasOptions(program string, want parts) bool {
	for i := range len(want.letters) {
		if !p.hasLetter(program, want.letters[i]) {
			return false
		}
	}
	return !slices.ContainsFunc(want.long, func(l string) bool { return !p.hasLong(program, l) })
}

func (p parts) hasLetter(program string, letter byte) bool {
	if strings.IndexByte(p.letters, letter) >= 0 {
		return true
	}
	for long, short := range synonyms[program] {
		if short != string(letter) {
			continue
		}
		if len(long) == 1 && strings.Contains(p.letters, long) || len(long) > 1 && p.hasLongOption("-"+long) {
			return true
		}
	}
	return false
}

func (p parts) hasLong(program, long string) bool {
	if p.hasLongOption(long) {
		return true
	}
	short := synonyms[program][strings.TrimPrefix(long, "-")]
	return short != "" && p.hasLetter(program, short[0])
}

// hasLongOption reports whether a long option is present, in full or abbreviated.
func (p parts) hasLongOption(long string) bool {
	return slices.ContainsFunc(p.long, func(l string) bool { return l == long || len(l) > 1 && strings.HasPrefix(long, l) })
}

// hasOperands reports whether the operands begin with the wanted ones, possibly with
// options between them. Operands right after an option may be its value and can be
// skipped. If the first wanted operand follows an option, it may be anywhere: curl x -X
// POST.
func (p parts) hasOperands(program string, want parts) certainty {
	if len(want.operands) == 0 {
		return yes
	}
	if anyOrder[program] {
		return p.hasOption(program, want.operands)
	}
	best, leading := no, true
	for i := range len(p.operands) + 1 {
		behind := i < len(p.operands) && p.before[i]
		if leading || want.before[0] && behind {
			if best = max(best, p.from(program, i, want.operands)); best == yes {
				return yes
			}
		}
		leading = leading && behind
	}
	return best
}

func (p parts) from(program string, i int, want []string) certainty {
	for first := i; len(want) > 0; i++ {
		switch {
		case p.unknown >= 0 && i >= p.unknown:
			return maybe
		case i >= len(p.operands):
			return no
		case p.operands[i] == anyBranch:
			return maybe
		case sameOperand(program, p.operands[i], want[0]):
			want = want[1:]
		case program == "git" && p.operands[first] == "push" && i > first+1: // another branch
		case i == first || !p.before[i]:
			return no
		}
	}
	return yes
}

// anyOrder are programs for which the order of operands does not matter.
var anyOrder = setOf("rm rmdir unlink shred cat head tail less more touch mkdir dd chattr make mvn gradle gradlew ninja rake")

func (p parts) hasOption(program string, want []string) certainty {
	for _, w := range want {
		if !slices.ContainsFunc(p.operands, func(have string) bool { return sameOperand(program, have, w) }) {
			if p.unknown >= 0 {
				return maybe
			}
			return no
		}
	}
	return yes
}

// synonyms are long options and other letters that mean the same as a letter, for
// programs that are often denied with certain options. --force-with-lease counts as a
// forced push.
var synonyms = map[string]map[string]string{
	"rm":    {"recursive": "r", "R": "r", "force": "f"},
	"cp":    {"recursive": "r", "R": "r", "force": "f", "archive": "a"},
	"chmod": {"recursive": "R"}, "chown": {"recursive": "R"}, "chgrp": {"recursive": "R"},
	"git":      {"force": "f", "force-with-lease": "f", "delete": "d", "all": "a", "no-verify": "n"},
	"kill":     {"KILL": "9", "SIGKILL": "9"},
	"curl":     {"request": "X", "data": "d", "output": "o", "upload-file": "T", "form": "F", "header": "H", "user": "u", "remote-name": "O", "insecure": "k", "config": "K"},
	"wget":     {"output-document": "O", "input-file": "i", "execute": "e"},
	"tar":      {"extract": "x", "get": "x", "create": "c", "file": "f", "append": "r", "update": "u"},
	"sed":      {"in-place": "i"},
	"sort":     {"output": "o"},
	"mysql":    {"execute": "e"},
	"psql":     {"command": "c", "file": "f"},
	"node":     {"eval": "e", "print": "p", "p": "e"},
	"perl":     {"E": "e"},
	"iptables": {"flush": "F", "delete": "D", "append": "A", "insert": "I", "policy": "P", "table": "t"},
	"docker":   {"force": "f"}, "ln": {"force": "f", "symbolic": "s"}, "mv": {"force": "f"},
	"kubectl": {"filename": "f", "namespace": "n", "output": "o"}, "npm": {"global": "g"},
}
