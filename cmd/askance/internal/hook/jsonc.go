package hook

import (
	"errors"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// document is the text of a settings file: JSON that may have comments and trailing
// commas. Edits keep every byte that they do not concern.
type document struct {
	text     string
	clean    string       // text with spaces in the place of comments and trailing commas
	trailing map[int]bool // where trailing commas are
	root     *node
}

// node is a value of a document. Objects and arrays have children.
type node struct {
	start, end int // of a child of an object: its value
	begin      int // of a child of an object: its name
	name       string
	children   []*node
}

func parseDocument(text string) (*document, error) {
	if strings.TrimSpace(text) == "" {
		text = "{}\n"
	}
	d := &document{text: text, trailing: map[int]bool{}}
	d.clean = d.withoutComments()
	if err := strictjson.Check([]byte(d.clean)); err != nil {
		return nil, err
	}
	at := 0
	d.root = d.value(&at)
	if d.clean[d.root.start] != '{' {
		return nil, errors.New("the file is not a JSON object")
	}
	return d, nil
}

// withoutComments returns the text as JSON of the same length.
func (d *document) withoutComments() string {
	out := []byte(d.text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	comma := -1 // the last one, if only space follows it
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			i = stringEnd(d.text, i) - 1
			comma = -1
		case strings.HasPrefix(d.text[i:], "//"):
			end := i + strings.IndexByte(d.text[i:]+"\n", '\n')
			blank(i, end)
			i = end - 1
		case strings.HasPrefix(d.text[i:], "/*"):
			end := len(out)
			if n := strings.Index(d.text[i+2:], "*/"); n >= 0 {
				end = i + 2 + n + 2
			}
			blank(i, end)
			i = end - 1
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0:
			out[comma], d.trailing[comma] = ' ', true
			comma = -1
		case c > ' ':
			comma = -1
		}
	}
	return string(out)
}

func stringEnd(text string, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(text))
}

// value reads a value of the clean text, which is valid.
func (d *document) value(at *int) *node {
	d.skip(at)
	n := &node{start: *at, begin: *at}
	switch c := d.clean[*at]; c {
	case '{', '[':
		for *at++; ; {
			d.skip(at)
			if e := d.clean[*at]; e == '}' || e == ']' {
				*at++
				break
			} else if e == ',' {
				*at++
				continue
			}
			begin, name := *at, ""
			if c == '{' {
				end := stringEnd(d.clean, *at)
				_ = strictjson.Unmarshal([]byte(d.clean[*at:end]), &name) // the text is valid
				*at = end
				d.skip(at)
				*at++ // the colon
			}
			child := d.value(at)
			child.begin, child.name = begin, name
			n.children = append(n.children, child)
		}
	case '"':
		*at = stringEnd(d.clean, *at)
	default:
		for *at < len(d.clean) && !strings.ContainsRune(",]} \t\r\n", rune(d.clean[*at])) {
			*at++
		}
	}
	n.end = *at
	return n
}

func (d *document) skip(at *int) {
	for *at < len(d.clean) && d.clean[*at] <= ' ' {
		*at++
	}
}

// member returns a member of an object; nil if there is none.
func (n *node) member(name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// add appends a child to an object or array. depth is how deep its lines are indented.
func (d *document) add(n *node, depth int, child string) string {
	end := n.end - 1 // the closing bracket
	body := strings.TrimRight(d.text[:end], " \t\r\n")
	line := "\n" + strings.Repeat("  ", depth) + child
	tail := "\n" + strings.Repeat("  ", depth-1) + d.text[end:]
	if len(n.children) == 0 {
		return body + line + tail
	}
	last := n.children[len(n.children)-1].end
	comma := ","
	for at := range d.trailing {
		if at >= last && at < end {
			comma = ""
		}
	}
	return d.text[:last] + comma + body[last:] + line + tail
}

// holdsOnly reports whether a node has no other child than this one, and no other comments.
func (d *document) holdsOnly(n, child *node) bool {
	for i := n.start; i < n.end; i++ {
		if d.text[i] != d.clean[i] && !d.trailing[i] && (i < child.begin || i >= child.end) {
			return false
		}
	}
	return len(n.children) == 1
}

// remove removes a child, with its comma and its line.
func (d *document) remove(n, child *node) string {
	from, to := child.begin, child.end
	rest := d.clean[to : n.end-1]
	if i := strings.IndexByte(rest, ','); i >= 0 && strings.TrimSpace(rest[:i]) == "" {
		to += i + 1
	} else if before := strings.TrimRight(d.clean[n.start+1:from], " \t\r\n"); strings.HasSuffix(before, ",") {
		from = n.start + len(before)                                                             // the comma before it
		return d.text[:from] + d.text[from+1:child.begin] + strings.TrimLeft(d.text[to:], " \t") // comments between stay
	}
	lead, after := strings.TrimRight(d.text[:from], " \t"), d.text[to:]
	for at := range d.trailing {
		if at >= to && strings.TrimSpace(d.clean[to:at]) == "" { // it has nothing to follow
			after = d.text[to:at] + d.text[at+1:]
		}
	}
	if next := strings.TrimLeft(after, " \t\r"); strings.HasSuffix(lead, "\n") && strings.HasPrefix(next, "\n") {
		after = next[1:] // the line before keeps its end: it may be a comment
	}
	return lead + after
}
