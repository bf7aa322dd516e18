package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxBraces bounds the brace lists in one word that are expanded.
const maxBraces = 3

// readWords returns the words of one command as the program would get them, and why
// some of them are not known before the line runs. In printed words $? does not matter: it is a number.
func (e *extractor) readWords(args []*syntax.Word, printed bool) (words []Word, why []Reason) {
	for _, arg := range args {
		w := e.readWordOf(arg)
		if !printed || !w.onlyStatus() {
			why = append(why, w.why...)
		}
		if expanded := w.spelledText(arg); expanded != nil {
			words = append(words, expanded...)
			continue
		}
		words = append(words, w.result())
	}
	return words, why
}

type wordReader struct {
	text   strings.Builder
	raw    string // as written
	offset int
	open   bool   // some part is not known
	head   string // the text before the first such part, or glob
	headed bool   // head is set
	glob   bool
	braces int
	before string // the text before the first brace
	status int    // how often $? is in it
	holes  []hole
	why    []Reason
}

// hole is a part of a word whose text is not known; see [Word.Bare].
type hole struct {
	at int // in the text
	as string
}

func (e *extractor) readWordOf(w *syntax.Word) *wordReader { return readWord(w, e.source(w)) }

func readWord(w *syntax.Word, raw string) *wordReader {
	r := &wordReader{offset: int(w.Pos().Offset()), raw: raw}
	for _, part := range w.Parts {
		r.readPart(part)
	}
	if r.braces > 0 && (strings.Contains(r.raw, ",") || strings.Contains(r.raw, "..")) {
		r.addReason(CodeBraces, "the shell may make several words of "+clipText(r.raw))
		if !r.headed || len(r.before) < len(r.head) {
			r.head, r.headed = r.before, true
		}
	} else {
		r.braces = 0
	}
	return r
}

func (r *wordReader) endKnown() {
	if !r.headed {
		r.head, r.headed = r.text.String(), true
	}
}

func (r *wordReader) addReason(code Code, detail string) {
	r.why = append(r.why, Reason{Code: code, Offset: r.offset, Detail: detail})
}

func (r *wordReader) readPart(part syntax.WordPart) {
	switch p := part.(type) {
	case *syntax.Lit:
		r.readLiteral(p.Value)
	case *syntax.SglQuoted:
		r.readSingleQuoted(p)
	case *syntax.DblQuoted:
		if p.Dollar {
			r.addReason(CodeQuoting, `$"..." is translated by bash alone`)
		}
		for _, inner := range p.Parts {
			if lit, ok := inner.(*syntax.Lit); ok {
				r.readQuoted(lit.Value)
			} else if text, ok := printedDocument(inner); ok {
				r.text.WriteString(text)
			} else {
				r.readPart(inner)
			}
		}
	case *syntax.CmdSubst:
		r.addHole(CodeSubst, "$(...) runs another command", "$")
	case *syntax.ProcSubst:
		r.addHole(CodeSubst, "<(...) runs another command", "$")
	case *syntax.ExtGlob:
		r.addHole(CodeGlob, "a pattern becomes the names of files", "$")
	case *syntax.BraceExp:
		r.addHole(CodeBraces, "the shell makes several words of it", "$")
	default:
		as := "$"
		if from, to := int(p.Pos().Offset())-r.offset, int(p.End().Offset())-r.offset; from >= 0 && from < to && to <= len(r.raw) {
			switch r.raw[from:to] {
			case "$HOME", "${HOME}":
				as = MarkHome
			case "$PWD", "${PWD}":
				as = MarkPwd
			case "$?":
				r.status++
			}
		}
		r.addHole(CodeExpansion, "the value of "+clipText(r.raw)+" is not known before it runs", as)
	}
}

// printedDocument returns the text that "$(cat <<'EOF' ... )" stands for.
func printedDocument(part syntax.WordPart) (text string, ok bool) {
	sub, ok := part.(*syntax.CmdSubst)
	if !ok || sub.Backquotes || len(sub.Stmts) != 1 || len(sub.Stmts[0].Redirs) != 1 {
		return "", false
	}
	s, doc := sub.Stmts[0], sub.Stmts[0].Redirs[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated || s.Background || s.Coprocess || s.Disown || len(call.Assigns) > 0 || len(call.Args) != 1 || call.Args[0].Lit() != "cat" ||
		doc.N != nil || doc.Op != syntax.Hdoc || doc.Word.Lit() != "" || !plainDocument(doc) {
		return "", false
	}
	for _, part := range doc.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok {
			return "", false
		}
		text += lit.Value
	}
	return strings.TrimRight(text, "\n"), true
}

func (r *wordReader) addHole(code Code, detail, as string) {
	r.addUnknown(code, detail)
	r.holes = append(r.holes, hole{r.text.Len(), as})
}

func (r *wordReader) addUnknown(code Code, detail string) {
	r.endKnown()
	r.open = true
	r.addReason(code, detail)
}

// readSingleQuoted reads '...' and bash's $'...', which sh reads differently.
func (r *wordReader) readSingleQuoted(p *syntax.SglQuoted) {
	if !p.Dollar {
		r.text.WriteString(p.Value)
		return
	}
	r.addReason(CodeQuoting, "$'...' hides its text, and sh reads it differently")
	value, err := unescape(p.Value)
	if err != nil || readOtherwise.MatchString(p.Value) {
		r.endKnown()
		r.open = true
		r.holes = append(r.holes, hole{r.text.Len(), "$"})
		return
	}
	value, _, _ = strings.Cut(value, "\x00") // bash drops the rest
	r.text.WriteString(value)
}

// readOtherwise matches escapes of $'...' that only bash knows: \x{72} and \c@.
var readOtherwise = regexp.MustCompile(`\\(?:c|x\{)`)

// largeOctal matches an octal escape beyond \377, and \\.
var largeOctal = regexp.MustCompile(`\\\\|\\[4-7][0-7]{2}`)

// unescape replaces the escapes of printf and $'...'.
func unescape(text string) (string, error) {
	text = largeOctal.ReplaceAllStringFunc(text, func(m string) string {
		if m == `\\` {
			return m
		}
		return `\` + string(rune(m[1]-4)) + m[2:] // \562 is \162 for bash
	})
	text, _, err := expand.Format(&expand.Config{}, text, nil)
	return text, err
}

// readDocument reads the text of <<EOF. If EOF is quoted, no character in it is special.
func (e *extractor) readDocument(d *syntax.Redirect) Word {
	r := &wordReader{offset: int(d.Hdoc.Pos().Offset()), raw: e.source(d.Hdoc)}
	plain := strings.ContainsAny(e.source(d.Word), `'"\`)
	for _, part := range d.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		switch {
		case !ok:
			r.readPart(part)
		case plain:
			r.text.WriteString(lit.Value)
		default:
			r.readQuoted(lit.Value)
		}
	}
	return r.result()
}

func (r *wordReader) readLiteral(s string) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			if i++; i == len(s) { // the last character of the line
				r.text.WriteByte(c)
			} else if s[i] != '\n' {
				r.text.WriteByte(s[i])
			}
			continue
		case '*', '?', '[':
			r.noteStar(c)
		case '~':
			if before := r.text.String(); before == "" || strings.HasSuffix(before, "=") || strings.HasSuffix(before, ":") {
				r.addUnknown(CodeExpansion, "~ stands for a folder")
			}
		case '{':
			if r.braces++; r.braces == 1 {
				r.before = r.text.String()
			}
		}
		r.text.WriteByte(s[i])
	}
}

// noteStar records a character of a glob. A lone "[" or "[[" is a word that begins a test.
func (r *wordReader) noteStar(c byte) {
	if c == '[' && (r.raw == "[" || r.raw == "[[") {
		return
	}
	if !r.glob && !isRooted(r.text.String()) {
		r.addReason(CodeGlob, "the names of files take the place of "+clipText(r.raw)+", and a name can be an option")
	}
	r.endKnown()
	r.glob = true
}

func (r *wordReader) readQuoted(s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		r.text.WriteByte(s[i])
	}
}

// onlyStatus reports whether $? is all that is not known of a word.
func (r *wordReader) onlyStatus() bool {
	return r.status > 0 && r.status == len(r.why) && !r.glob && r.braces == 0
}

func (r *wordReader) result() Word {
	if r.open || r.glob || r.braces > 0 {
		text := r.text.String()
		return Word{Text: r.raw, head: r.head, bare: r.bareText(text), rooted: !r.open && r.braces == 0 && isRooted(text), status: r.onlyStatus()}
	}
	return Word{Text: r.text.String(), Fixed: true}
}

// bareText returns the text with its holes filled, for Word.Bare.
func (r *wordReader) bareText(text string) string {
	end := len(text)
	if r.braces > 0 {
		end = len(r.before)
	}
	var bare strings.Builder
	at := 0
	for _, h := range r.holes {
		if h.at > end {
			break
		}
		bare.WriteString(text[at:h.at] + h.as)
		at = h.at
	}
	bare.WriteString(text[at:end])
	switch {
	case r.braces == 0:
		return bare.String()
	case leadsElsewhere.MatchString(text) || len(r.holes) > 0 && r.holes[len(r.holes)-1].at >= end:
		return "$"
	default:
		return bare.String() + "*"
	}
}

// leadsElsewhere matches lists in braces that can begin a path, or go to the folder above.
var leadsElsewhere = regexp.MustCompile(`[{,][./~]|\.[{,}]|\.\.`)

// spelledText returns the words of a short brace list, for deny and ask rules; nil if
// there is none or it is too long to expand.
func (r *wordReader) spelledText(w *syntax.Word) []Word {
	if r.braces == 0 || r.braces > maxBraces || r.open || r.glob || strings.Contains(r.raw, "..") || len(r.raw) > 1024 {
		return nil
	}
	list := *w
	if !syntax.SplitBraces(&list) {
		return nil
	}
	words := []Word{}
	for one, err := range expand.BracesSeq(&expand.Config{}, &list) {
		if err != nil {
			return nil
		}
		text := &wordReader{raw: r.raw}
		for _, part := range one.Parts {
			text.readPart(part)
		}
		quoted := slices.ContainsFunc(one.Parts, func(p syntax.WordPart) bool { _, plain := p.(*syntax.Lit); return !plain })
		switch {
		case strings.ContainsAny(text.text.String(), "{}"):
			return nil // bash may divide it elsewhere: {a},b} is a} and b
		case text.text.Len() == 0 && !quoted:
			continue // {a,} is one word
		}
		words = append(words, Word{Text: text.text.String(), Fixed: true})
	}
	return words
}

func clipText(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
