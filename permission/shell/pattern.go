package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrPattern is the cause of every error of [Compile].
var ErrPattern = errors.New("shell pattern cannot be used")

// ErrUnclear is the cause of errors of [Pattern.Matches]: the line may run what the
// pattern is about, but that is not known before the line runs.
var ErrUnclear = errors.New("what the line runs is not known before it runs")

// Pattern is the compiled content of one rule, as AgentScope writes it:
//
//	git status:*    prefix: git status, with any further arguments
//	git * main      wildcard: * is any text; \* is a star
//	npm install     literal: exactly this line, or this command of a line
//
// In an allow rule it matches less than in a deny or ask rule: see [Line.Cover]
// and [Pattern.Matches]. Patterns may be used by several goroutines.
type Pattern struct {
	content string
	kind    patternKind
	text    string    // without ":*" or escapes; for a wildcard, as written
	tokens  []string  // the words of text; for a wildcard, those before the first star
	glob    glob      // for a wildcard: matches the raw line with its newlines, or one command
	files   fileWords // for a wildcard that names files or URLs
	options []string  // for a wildcard: its words without stars, if only options follow these
	exact   *Line     // for a literal: the line that it states
	trust   bool
	added   *entry // the options that the rule itself lists

	// For a wildcard: the number of words after its last star, and its last word if
	// that ends with a star.
	trailing  int
	completes *fileWord
}

type patternKind uint8

const (
	prefix patternKind = iota
	wildcard
	literal
)

// maxPattern is the longest content in bytes.
const maxPattern = 4096

// Compile compiles the content of a rule. Empty content, which matches every call, is
// an error.
func Compile(content string) (*Pattern, error) {
	if strings.TrimSpace(content) == "" {
		return nil, fmt.Errorf("%w: it is empty; a rule without content matches every call", ErrPattern)
	}
	if len(content) > maxPattern {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrPattern, len(content), maxPattern)
	}
	if h := findHidden(content); h != nil {
		return nil, fmt.Errorf("%w: it has a character that cannot be seen: %s", ErrPattern, h)
	}
	p := &Pattern{content: content}
	if before, ok := strings.CutSuffix(content, ":*"); ok {
		p.text = strings.TrimSpace(before)
		p.tokens = strings.Fields(p.text)
		return p, nil
	}
	if pieces := splitStars(content); len(pieces) == 1 {
		p.kind, p.text, p.tokens = literal, pieces[0], strings.Fields(pieces[0])
		p.exact = Parse(p.text)
		return p, nil
	}
	p.kind, p.text = wildcard, content
	return p, p.compileExpressions()
}

func (p *Pattern) compileExpressions() error {
	p.glob = readGlob(p.text)
	head := p.glob.pieces[0]
	p.tokens = strings.Fields(head)
	if len(p.glob.pieces) > 1 && !strings.HasSuffix(head, " ") && len(p.tokens) > 0 {
		p.tokens = p.tokens[:len(p.tokens)-1] // the star continues the word
	}
	p.options = dropStars(p.text)
	files, names, err := readFileWords(p.text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPattern, err)
	}
	words := strings.Fields(p.text)
	for p.trailing < len(words) && len(starPlaces(words[len(words)-1-p.trailing])) == 0 {
		p.trailing++
	}
	if last := len(files) - 1; names {
		p.files = files
	} else if last > 0 && files[last].kind == longWord && strings.Count(p.text, "*") == 1 {
		p.completes = &files[last]
	}
	return nil
}

// String is the content as written.
func (p *Pattern) String() string { return p.content }

// TrustOptions returns a pattern that, in an allow rule, covers the program with any
// option. Everything else must still be proved.
func (p *Pattern) TrustOptions() *Pattern {
	q := *p
	q.trust = true
	return &q
}

// AddOptions returns a pattern that, in an allow rule, also admits these options and
// operands. They are written as in options.txt.
func (p *Pattern) AddOptions(words string) (*Pattern, error) {
	if p.kind == literal || len(p.tokens) == 0 {
		return nil, fmt.Errorf("%w: options need a program and :* or * behind it", ErrPattern)
	}
	added, err := lineReader{wordSets, map[string]*entry{}}.newEntry(p.tokens[0], words)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPattern, err)
	}
	if (added.attributes != attributes{onedash: added.onedash, plus: added.plus}) || added.check != nil {
		return nil, fmt.Errorf("%w: a rule lists options and operands, and nothing else", ErrPattern)
	}
	q := *p
	q.added = added
	return &q, nil
}

// dropStars returns the words of a wildcard without its stars if only options follow
// them: "git push * --force" is about the option in any place. Otherwise it returns
// nil.
func dropStars(text string) []string {
	var words []string
	star := false
	for w := range strings.FieldsSeq(text) {
		switch {
		case w == "*" && len(words) > 0:
			star = true
		case strings.ContainsAny(w, `*\`) || star && (len(w) < 2 || w[0] != '-'):
			return nil
		default:
			words = append(words, w)
		}
	}
	return words
}

// NamesFiles reports whether the pattern is a wildcard whose stars, in an allow
// rule, stand for files, hosts or single words, not for any text.
func (p *Pattern) NamesFiles() bool { return len(p.files) > 0 }

// needsStart reports whether the pattern is words that anything may follow.
func (p *Pattern) needsStart() bool {
	return p.kind != wildcard || strings.HasSuffix(p.text, " *") && strings.Count(p.text, "*") == 1
}

// namesProgram reports whether the pattern, in an allow rule, names the command, that
// is, whether the command begins with the words of the pattern. A path does not match
// its last element, and a word that is not known matches nothing.
func (p *Pattern) namesProgram(c *Command) bool {
	if len(c.Argv) == 0 {
		return false
	}
	if p.kind == literal {
		words := p.words()
		return len(words) > 0 && len(c.Argv) >= len(words) && slices.Equal(c.Argv[:len(words)], words)
	}
	if !p.needsStart() {
		text := c.join("\"' \t\n") // so one word does not look like two
		return !strings.Contains(text, "\n") && p.glob.matchesText(text) && p.files.coverWords(c.Argv)
	}
	if len(p.tokens) == 0 || len(p.tokens) > len(c.Argv) {
		return false
	}
	for i, t := range p.tokens {
		if !c.Argv[i].Fixed || c.Argv[i].Text != t {
			return false
		}
	}
	return true
}

// words returns the words of a literal that is one plain command; nil for other patterns.
func (p *Pattern) words() []Word {
	if len(p.exact.Commands) != 1 || !p.exact.Static() || p.exact.flows {
		return nil
	}
	return p.exact.Commands[0].Argv
}

// isWholeLine reports whether the line is the one that a literal states. If it is more than
// plain calls, it must be written the same way, and no part may depend on the machine.
func (p *Pattern) isWholeLine(l *Line) bool {
	if p.kind != literal || len(l.elsewhere) > 0 || len(l.Commands) != len(p.exact.Commands) {
		return false
	}
	if l.Static() && !l.flows {
		return p.exact.Static() && !p.exact.flows && slices.EqualFunc(l.Commands, p.exact.Commands, func(a, b Command) bool {
			return a.joint == b.joint && sameArgv(a, b)
		})
	}
	return strings.TrimSpace(l.Text) == strings.TrimSpace(p.text) && !slices.ContainsFunc(l.Reasons, func(r Reason) bool { return !stated[r.Code] })
}

// stated are the reasons that do not prevent a rule from covering a line that is written in it.
var stated = map[Code]bool{
	CodeAssignment: true, CodeRedirect: true, CodeControl: true, CodeNegation: true, CodeBackground: true, CodeDeclaration: true, CodeFolder: true,
}

// Notice tells the author of an allow rule where the pattern covers less than
// AgentScope's matching of the same content, or returns "".
func (p *Pattern) Notice() string {
	if p.kind == literal {
		return "covers exactly this line, not every line that holds it"
	}
	if len(p.tokens) == 0 {
		return "names no program before the first *: covers only programs whose options are known"
	}
	argv := fixedWords(p.tokens)
	r := review{argv: argv, first: len(argv), last: len(argv), added: p.added, partial: true}
	why, known := r.refuse()
	switch {
	case p.trust:
		return ""
	case !known, why != "":
		return why + ": covers the command only if the content is the whole of it, or with trust_options"
	}
	return ""
}

// glob is a text with stars that each match any text. It is matched in one pass,
// because a rule is checked against every command of a line, however long.
type glob struct {
	pieces []string // between the stars
	// rest is set by a final " *": the text may end there, or go on after a blank.
	rest bool
}

func readGlob(content string) glob {
	body, rest := strings.CutSuffix(content, " *")
	return glob{pieces: splitStars(body), rest: rest}
}

// splitStars returns the text between the stars; \* and \\ are plain characters.
func splitStars(text string) []string {
	var pieces []string
	var piece strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '*':
			pieces = append(pieces, piece.String())
			piece.Reset()
			continue
		case c == '\\' && i+1 < len(text) && (text[i+1] == '*' || text[i+1] == '\\'):
			i++
		}
		piece.WriteByte(text[i])
	}
	return append(pieces, piece.String())
}

func (g glob) matchesText(text string) bool {
	text, ok := strings.CutPrefix(text, g.pieces[0])
	if !ok {
		return false
	}
	if len(g.pieces) == 1 {
		return text == "" || g.rest && text[0] == ' '
	}
	last := len(g.pieces) - 1
	for _, piece := range g.pieces[1:last] { // an early match leaves the most text for the other pieces
		if _, text, ok = strings.Cut(text, piece); !ok {
			return false
		}
	}
	return strings.HasSuffix(text, g.pieces[last]) || g.rest && strings.Contains(text, g.pieces[last]+" ")
}

// checkFolder marks the commands after a change of the folder, and adds a reason for
// programs that are configured by the folder they run in: after the change, the files that a
// rule names and the files that configure a program are different ones.
func (l *Line) checkFolder() {
	first := slices.IndexFunc(l.Commands, func(c Command) bool {
		name, ok := c.program()
		return ok && changesFolder[name]
	})
	switch {
	case len(l.elsewhere) > 0:
		first = -1
	case first < 0:
		return
	}
	for i := range l.Commands[first+1:] {
		l.Commands[first+1+i].moved = true
	}
	for _, list := range [][]Command{l.Commands, l.Nested} {
		for i := range list {
			if name, _ := list[i].program(); isKnown(name) && programs[name].folder {
				l.addReason(CodeFolder, list[i].Offset, name+" is configured by the folder that it runs in")
			}
		}
	}
}

// findRelative returns the relative path from which the command's program comes, or a word of
// an allow rule that may name a file of the working folder; "" if there is none.
func (p *Pattern) findRelative(c *Command) string {
	if program := c.Argv[0].Text; strings.Contains(program, "/") && program[0] != '/' {
		return program
	}
	name, _ := c.program()
	if printers[name] {
		return ""
	}
	known := programs[name]
	for i, word := range strings.Fields(p.text) {
		sub := known.sub(word)
		switch {
		case i == 0 || strings.Trim(word, "*") == "":
		case sub != nil:
			known = sub
		case word[0] == '-':
			if _, value, given := strings.Cut(word, "="); given && isRelative(value) {
				return word
			}
		case isRelative(word):
			return word
		}
	}
	return ""
}

// isRelative reports whether a word may name a file below the folder that a program runs in.
func isRelative(word string) bool {
	return word != "" && !strings.ContainsAny(word[:1], "/~") && !strings.Contains(word, "://")
}
