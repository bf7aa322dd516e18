package term

import (
	"strings"
	"unicode/utf8"
)

// Wrapper breaks a stream of text into indented lines between words. Call Write for
// each piece, and Flush at the end. It is not safe for concurrent use.
type Wrapper struct {
	Out    func(string)
	Indent string
	Width  int

	word string
	col  int // characters on the present line, without the indent
}

// Write adds the next piece. A word is shown when the character after it has arrived.
func (w *Wrapper) Write(text string) {
	for _, r := range text {
		switch r {
		case '\n':
			w.endWord()
			w.newline()
		case ' ', '\t':
			w.endWord()
		default:
			w.word += string(r)
		}
	}
}

// Flush shows what is left and ends the line.
func (w *Wrapper) Flush() {
	w.endWord()
	if w.col > 0 {
		w.newline()
	}
}

func (w *Wrapper) newline() {
	w.Out("\n")
	w.col = 0
}

func (w *Wrapper) endWord() {
	if w.word == "" {
		return
	}
	n := utf8.RuneCountInString(w.word)
	if w.col > 0 && len(w.Indent)+w.col+1+n > w.Width {
		w.newline()
	}
	if w.col == 0 {
		w.Out(w.Indent + w.word)
		w.col = n
	} else {
		w.Out(" " + w.word)
		w.col += 1 + n
	}
	w.word = ""
}

// Indent puts a prefix before each line of text.
func Indent(text, prefix string) string {
	return prefix + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+prefix)
}
