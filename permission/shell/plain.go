package shell

import (
	"strings"
	"unicode/utf8"
)

// The plain reader is a second opinion. It reads only the small language that every
// shell reads the same way: words of literal characters and quotes, joined by && || | ;
// and newlines, redirected to /dev/null or to another descriptor. A rule that does not
// state the whole line covers only what both this reader and the parser, for bash and
// for sh, read with the same result, so a mistake in the parser cannot allow anything.

// plainWord is one word. A word with a glob stands for several words, each of
// which begins with "/" or "./". With status it has $? in it, which is a number.
type plainWord struct {
	text   string
	glob   bool
	status bool
}

type plainCommand struct {
	words []plainWord
	// piped is set if it reads the output of the command before it.
	piped bool
}

type plainReader struct {
	text string
	pos  int
	cmds []plainCommand
	cur  plainCommand
}

// readPlain returns the commands of a plain line; ok is false for any other line. An
// empty line has no commands.
func readPlain(text string) (cmds []plainCommand, ok bool) {
	r := &plainReader{text: text}
	for open := false; ; {
		r.skipBlanks()
		if r.pos == len(r.text) {
			return r.cmds, !open && r.endCommand(false)
		}
		switch c := r.text[r.pos]; c {
		case '\n':
			r.pos++
			if len(r.cur.words) > 0 && !r.endCommand(false) {
				return nil, false
			}
		case ';':
			r.pos++
			if len(r.cur.words) == 0 || !r.endCommand(false) || r.at(";&") {
				return nil, false
			}
		case '&', '|':
			single := !strings.HasPrefix(r.text[r.pos+1:], string(c))
			r.pos += 2
			if single {
				r.pos--
			}
			if single && c == '&' || r.at("&|;") || len(r.cur.words) == 0 || !r.endCommand(single) {
				return nil, false
			}
			open = true
			continue
		default:
			if !r.readWord() {
				return nil, false
			}
			open = false
		}
	}
}

func (r *plainReader) at(chars string) bool {
	return r.pos < len(r.text) && strings.IndexByte(chars, r.text[r.pos]) >= 0
}

func (r *plainReader) skipBlanks() {
	for r.pos < len(r.text) {
		switch {
		case r.at(" \t"):
			r.pos++
		case strings.HasPrefix(r.text[r.pos:], "\\\n"):
			r.pos += 2
		case r.at("#") && !strings.HasSuffix(r.text[:r.pos], "\\\n"):
			// After a continued line "#" could still be inside a word.
			end := strings.IndexByte(r.text[r.pos:], '\n')
			if end < 0 {
				r.pos = len(r.text)
				return
			}
			r.pos += end
		default:
			return
		}
	}
}

// endCommand ends a command; piped says that the next one reads its output.
func (r *plainReader) endCommand(piped bool) bool {
	if len(r.cur.words) > 0 {
		first := r.cur.words[0]
		if first.text == "" || first.glob || reserved[first.text] {
			return false
		}
		r.cmds = append(r.cmds, r.cur)
	}
	r.cur = plainCommand{piped: piped}
	return true
}

func (r *plainReader) readWord() bool {
	start := r.pos
	if r.pos+1 < len(r.text) && isDigit(r.text[r.pos]) && (r.text[r.pos+1] == '>' || r.text[r.pos+1] == '<') {
		r.pos++ // dash takes one digit only
	}
	if r.at("<>") {
		// A redirect alone would be a command, and a redirect before the command is
		// rare.
		return len(r.cur.words) > 0 && r.readRedirect()
	}
	if r.at("#") {
		return false // possible only after a continued line
	}
	w, ok := r.readLiteral()
	if !ok || r.pos == start || r.at("()") {
		return false
	}
	if r.at("<>") && (isDigits(w.text) || strings.HasPrefix(w.text, "{")) {
		return false // a descriptor to one shell, an argument to the other
	}
	if len(r.cur.words) == 0 && strings.Contains(w.text, "=") {
		return false // an assignment, in one shell or another
	}
	r.cur.words = append(r.cur.words, w)
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (r *plainReader) readRedirect() bool {
	switch rest := r.text[r.pos:]; {
	case strings.HasPrefix(rest, ">&1"), strings.HasPrefix(rest, ">&2"):
		r.pos += 3
		return r.pos == len(r.text) || r.at(" \t\n;|&<>")
	case strings.HasPrefix(rest, ">>"):
		r.pos += 2
	default:
		r.pos++
	}
	for r.at(" \t") {
		r.pos++
	}
	w, ok := r.readLiteral()
	return ok && !w.glob && w.text == "/dev/null"
}

func (r *plainReader) readLiteral() (plainWord, bool) {
	var w plainWord
	var b strings.Builder
	brace := false
	for r.pos < len(r.text) {
		c, size := utf8.DecodeRuneInString(r.text[r.pos:])
		switch {
		case strings.ContainsRune(" \t\n;&|<>()", c):
			w.text = b.String()
			return w, r.isFine(w, brace)
		case c == '\'':
			end := strings.IndexByte(r.text[r.pos+1:], '\'')
			if end < 0 {
				return w, false
			}
			b.WriteString(r.text[r.pos+1 : r.pos+1+end])
			r.pos += end + 2
			continue
		case c == '"':
			if !r.readDoubleQuoted(&b, &w) {
				return w, false
			}
			continue
		case c == '\\':
			if !r.readEscape(&b) {
				return w, false
			}
			continue
		case r.atStatus():
			w.status = true
			b.WriteString("$?")
			r.pos += 2
			continue
		case c == '$' || c == '`' || oddRune(c):
			return w, false
		case c == '~' && (b.Len() == 0 || strings.HasSuffix(b.String(), "=") || strings.HasSuffix(b.String(), ":")):
			return w, false
		case c == '*' || c == '?' || c == '[':
			if !isRooted(b.String()) && !r.isLone(c, b.Len()) {
				return w, false
			}
			w.glob = w.glob || isRooted(b.String())
		case c == '{' || c == '}':
			brace = true
		}
		b.WriteString(r.text[r.pos : r.pos+size])
		r.pos += size
	}
	w.text = b.String()
	return w, r.isFine(w, brace)
}

// isFine reports whether the braces of a whole word cannot expand.
func (r *plainReader) isFine(w plainWord, brace bool) bool {
	return !brace || !w.glob && !strings.Contains(w.text, ",") && !strings.Contains(w.text, "..")
}

// isLone reports whether "[" is a whole word: the program of that name.
func (r *plainReader) isLone(c rune, before int) bool {
	next := r.pos + 1
	return c == '[' && before == 0 && next < len(r.text) && (r.text[next] == ' ' || r.text[next] == '\t')
}

// isRooted reports whether everything that a glob after this text can match begins with
// "/" or "./", so it cannot be an option.
func isRooted(text string) bool {
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./")
}

func (r *plainReader) readEscape(b *strings.Builder) bool {
	r.pos++
	c, size := utf8.DecodeRuneInString(r.text[r.pos:])
	if size == 0 || oddRune(c) {
		return false
	}
	if c != '\n' {
		b.WriteRune(c)
	}
	r.pos += size
	return true
}

// atStatus reports whether $? is next, in an argument of echo.
func (r *plainReader) atStatus() bool {
	return strings.HasPrefix(r.text[r.pos:], "$?") && len(r.cur.words) > 0 && r.cur.words[0].text == "echo"
}

// readDoubleQuoted reads "...". A "$" in it is plain only where no shell could take
// it for an expansion.
func (r *plainReader) readDoubleQuoted(b *strings.Builder, w *plainWord) bool {
	for r.pos++; r.pos < len(r.text); r.pos++ {
		c := r.text[r.pos]
		switch c {
		case '"':
			r.pos++
			return true
		case '`':
			return false
		case '$':
			if r.atStatus() {
				w.status = true
				b.WriteString("$?")
				r.pos++
				continue
			}
			if text, size := documentAt(r.text[r.pos:]); size > 0 {
				b.WriteString(text)
				r.pos += size - 1
				continue
			}
			if r.pos+1 == len(r.text) || strings.IndexByte("\" |)/", r.text[r.pos+1]) < 0 {
				return false
			}
		case '\\':
			if r.pos+1 < len(r.text) && strings.IndexByte("$`\"\\\n", r.text[r.pos+1]) >= 0 {
				r.pos++
				if c = r.text[r.pos]; c == '\n' {
					continue
				}
			}
		}
		b.WriteByte(c)
	}
	return false
}

// documentAt returns the text that $(cat <<'EOF' ... ) at the beginning of s stands for, and its
// length in s. It refuses a text in which a shell that counts quotes and brackets there could find
// another end.
func documentAt(s string) (text string, size int) {
	rest, ok := strings.CutPrefix(s, "$(cat <<'")
	name, rest, named := strings.Cut(rest, "'\n")
	text, rest, ended := strings.Cut("\n"+rest, "\n"+name+"\n")
	rest, closed := strings.CutPrefix(strings.TrimLeft(rest, " \t\n"), ")")
	if !ok || !named || !ended || !closed || name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || strings.ContainsAny(text, "'\"`$\\") {
		return "", 0
	}
	depth := 0
	for line := range strings.SplitSeq(text, "\n") {
		// dash drops a byte of a character behind a part of the name.
		if strings.HasPrefix(strings.TrimSpace(line), name) || line != "" && line[0] == name[0] && len(line) > utf8.RuneCountInString(line) {
			return "", 0
		}
		for _, c := range line {
			switch c {
			case '(':
				depth++
			case ')':
				depth--
			}
			if depth < 0 || depth > 0 && strings.Contains(text, "#") {
				return "", 0
			}
		}
	}
	if depth != 0 {
		return "", 0
	}
	return strings.TrimRight(strings.TrimPrefix(text, "\n"), "\n"), len(s) - len(rest)
}
