package strictjson

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// quickObject decodes an object several times faster than the general way, and
// holds it to the same: one value, names once, text in UTF-8, size and nesting
// bounded. false: it is no object, or has a fault, and the general way finds out
// which. The texts of the result are parts of one copy of data.
func quickObject(data []byte, l limits) (map[string]any, bool) {
	if len(data) > l.bytes {
		return nil, false
	}
	r := quickReader{text: string(data), levels: l.depth, anys: anyDecoder{keepBig: l.keepBig}}
	if r.next() != '{' {
		return nil, false
	}
	m, ok := r.object()
	return m, ok && r.next() == 0 && r.at == len(r.text)
}

// quickReader reads one text from its beginning.
type quickReader struct {
	text   string
	at     int
	levels int // how many objects and arrays may still open
	anys   anyDecoder
}

// next skips white space and gives the byte that follows; 0 at the end.
func (r *quickReader) next() byte {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// took skips a byte if it comes next.
func (r *quickReader) took(c byte) bool {
	if r.next() != c {
		return false
	}
	r.at++
	return true
}

func (r *quickReader) value() (any, bool) {
	switch c := r.next(); {
	case c == '"':
		return r.string()
	case c == '{':
		return r.object()
	case c == '[':
		return r.array()
	case c == 't':
		return true, r.word("true")
	case c == 'f':
		return false, r.word("false")
	case c == 'n':
		return nil, r.word("null")
	case c == '-' || digit(c):
		return r.number()
	default:
		return nil, false
	}
}

func (r *quickReader) word(w string) bool {
	ok := strings.HasPrefix(r.text[r.at:], w)
	r.at += len(w)
	return ok
}

func (r *quickReader) opens() bool {
	r.at++
	r.levels--
	return r.levels >= 0
}

func (r *quickReader) closes() bool {
	r.at++
	r.levels++
	return true
}

// object reads an object from its bracket on.
func (r *quickReader) object() (map[string]any, bool) {
	if !r.opens() {
		return nil, false
	}
	m := make(map[string]any)
	if r.next() == '}' {
		return m, r.closes()
	}
	for {
		if r.next() != '"' {
			return nil, false
		}
		name, ok := r.string()
		if !ok || !r.took(':') {
			return nil, false
		}
		v, ok := r.value()
		if !ok {
			return nil, false
		}
		before := len(m)
		if m[name] = v; len(m) == before {
			return nil, false // a name that has been there
		}
		switch r.next() {
		case ',':
			r.at++
		case '}':
			return m, r.closes()
		default:
			return nil, false
		}
	}
}

// array reads an array from its bracket on.
func (r *quickReader) array() ([]any, bool) {
	if !r.opens() {
		return nil, false
	}
	list := []any{}
	if r.next() == ']' {
		return list, r.closes()
	}
	for {
		v, ok := r.value()
		if !ok {
			return nil, false
		}
		list = append(list, v)
		switch r.next() {
		case ',':
			r.at++
		case ']':
			return list, r.closes()
		default:
			return nil, false
		}
	}
}

// string reads a text from its quote on. One with escapes is left to the
// library.
func (r *quickReader) string() (string, bool) {
	r.at++
	begin, ascii := r.at, true
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			s := r.text[begin:r.at]
			r.at++
			return s, ascii || utf8.ValidString(s)
		case c == '\\':
			return r.escaped(begin - 1)
		case c < ' ':
			return "", false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", false
}

// escaped reads a text that begins with the quote at begin.
func (r *quickReader) escaped(begin int) (string, bool) {
	end := stringEnd(r.text, begin)
	if end >= len(r.text) {
		return "", false
	}
	r.at = end + 1
	b, err := jsontext.AppendUnquote(nil, r.text[begin:r.at])
	return string(b), err == nil
}

// number reads a number from its sign or first digit on.
func (r *quickReader) number() (any, bool) {
	begin, whole := r.at, true
	if r.at < len(r.text) && r.text[r.at] == '-' {
		r.at++
	}
	if r.at < len(r.text) && r.text[r.at] == '0' {
		r.at++
	} else if !r.digits() {
		return nil, false
	}
	if r.at < len(r.text) && r.text[r.at] == '.' {
		r.at++
		if whole = false; !r.digits() {
			return nil, false
		}
	}
	if r.at < len(r.text) && r.text[r.at]|0x20 == 'e' {
		r.at++
		if r.at < len(r.text) && (r.text[r.at] == '+' || r.text[r.at] == '-') {
			r.at++
		}
		if whole = false; !r.digits() {
			return nil, false
		}
	}
	read := float
	if whole {
		read = r.anys.integer
	}
	v, err := read(r.text[begin:r.at])
	return v, err == nil
}

// digits skips one or more.
func (r *quickReader) digits() bool {
	begin := r.at
	for r.at < len(r.text) && digit(r.text[r.at]) {
		r.at++
	}
	return r.at > begin
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
