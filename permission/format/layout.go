package format

import (
	"cmp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

type layout struct {
	lines []string // from 0
	// inText are the lines inside a multi-line text, where # is not a comment and an empty line has
	// a meaning.
	inText map[int]bool
}

// block is a key or a list item, with the comments before it.
type block struct {
	key        string // of a mapping
	start, end int    // lines, without end
	body       int    // the first line after the comments
	value      ast.Node
}

func (l *layout) file(top *ast.MappingNode) string {
	ast.Walk(textLines{l}, top)
	blocks, head := l.blocks(top, 0, len(l.lines))
	slices.SortStableFunc(blocks, byKey(fileOrder))
	var out []string
	out = append(out, head...)
	for _, b := range blocks {
		switch seq, ok := b.value.(*ast.SequenceNode); {
		case ok && !seq.IsFlowStyle && len(seq.Values) > 0 && (b.key == "rules" || b.key == "tests"):
			order := ruleOrder
			if b.key == "tests" {
				order = testOrder
			}
			out = append(out, l.trimmedLine(b.start, b.body+1)...)
			out = append(out, l.items(seq, b, order)...)
		default:
			out = append(out, l.trimmedLine(b.start, b.end)...)
		}
	}
	return strings.Join(squeezeBlanks(out), "\n") + "\n"
}

// blocks cuts the lines from first to last at the keys of a mapping. What precedes the first key
// and an empty line belongs to the file as a whole.
func (l *layout) blocks(m *ast.MappingNode, first, last int) (out []block, head []string) {
	for i, kv := range m.Values {
		pos := kv.Key.GetToken().Position
		b := block{key: kv.Key.String(), body: pos.Line - 1, value: kv.Value}
		floor := first
		if i > 0 {
			floor = out[i-1].body + 1
		}
		b.start = l.commentsBefore(b.body, floor, pos.Column-1)
		if i == 0 {
			// A comment separated from the first key by an empty line belongs to the file.
			cut := b.start
			for n := b.body - 1; n >= b.start; n-- {
				if strings.TrimSpace(l.lines[n]) == "" {
					cut = n + 1
					break
				}
			}
			if first == 0 {
				head, b.start = l.trimmedLine(0, cut), cut
			} else {
				b.start = first
			}
		} else {
			out[i-1].end = b.start
		}
		out = append(out, b)
	}
	if len(out) > 0 {
		out[len(out)-1].end = last
	}
	return out, head
}

// commentsBefore returns the first of the comment lines directly before a line.
func (l *layout) commentsBefore(line, floor, indent int) int {
	start := line
	for n := line - 1; n >= floor; n-- {
		text := strings.TrimSpace(l.lines[n])
		if l.inText[n] || text != "" && (!strings.HasPrefix(text, "#") || leadingBlanks(l.lines[n]) > indent) {
			break
		}
		start = n
	}
	return start
}

func (l *layout) items(seq *ast.SequenceNode, b block, order []string) []string {
	var out []string
	starts := make([]int, len(seq.Values)+1)
	for i, item := range seq.Values {
		line := firstLine(item)
		floor := b.body + 1
		if i > 0 {
			floor = firstLine(seq.Values[i-1]) + 1
		}
		starts[i] = l.commentsBefore(line, floor, leadingBlanks(l.lines[line]))
	}
	starts[len(seq.Values)] = b.end
	before := 0
	for i, item := range seq.Values {
		text := l.item(item, starts[i], starts[i+1], order)
		for len(text) > 0 && text[0] == "" {
			text = text[1:]
		}
		if i > 0 && (len(text) > 1 || before > 1) {
			out = append(out, "")
		}
		before = len(text)
		out = append(out, text...)
	}
	return out
}

// item formats one item: its comments, then its keys in order, indented by two.
func (l *layout) item(item ast.Node, start, end int, order []string) []string {
	line := firstLine(item)
	for end > line+1 && strings.TrimSpace(l.lines[end-1]) == "" && !l.inText[end-1] {
		end--
	}
	m, ok := item.(*ast.MappingNode)
	if ok && m.IsFlowStyle || !ok {
		return l.shiftedLine(start, end, 2-leadingBlanks(l.lines[line]))
	}
	column := m.Values[0].Key.GetToken().Position.Column - 1
	// Comments at the end that are indented less than the keys come after the item.
	tail := end
	for tail > line+1 && !l.inText[tail-1] && l.isComment(tail-1) && leadingBlanks(l.lines[tail-1]) < column {
		tail--
	}
	behind := l.trimmedLine(tail, end)
	for tail > line+1 && l.lines[tail-1] == "" && !l.inText[tail-1] {
		tail--
	}
	blocks, _ := l.blocks(m, line, tail)
	slices.SortStableFunc(blocks, byKey(order))
	out := l.shiftedLine(start, line, 2-leadingBlanks(l.lines[line]))
	for i, b := range blocks {
		lines := slices.Clone(l.lines[b.start:b.end])
		// The dash belongs to the first key.
		if b.body == line {
			lines[b.body-b.start] = strings.Repeat(" ", column) + l.lines[line][column:]
		}
		for n := range lines {
			lines[n] = l.shift(lines[n], 4-column, l.inText[b.start+n])
		}
		if i == 0 {
			at := b.body - b.start
			comments := lines[:at]
			for n := range comments {
				comments[n] = "  " + strings.TrimLeft(comments[n], " ")
			}
			lines[at] = "  - " + strings.TrimLeft(lines[at], " ")
		}
		out = append(out, lines...)
	}
	return append(out, behind...)
}

func (l *layout) isComment(line int) bool {
	text := strings.TrimSpace(l.lines[line])
	return text == "" || strings.HasPrefix(text, "#")
}

// firstLine returns the line in which a node starts, from 0.
func firstLine(n ast.Node) int {
	switch v := n.(type) {
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return v.Values[0].Key.GetToken().Position.Line - 1
		}
	}
	return n.GetToken().Position.Line - 1
}

func byKey(order []string) func(a, b block) int {
	rank := func(key string) int {
		if i := slices.Index(order, key); i >= 0 {
			return i
		}
		return len(order)
	}
	return func(a, b block) int { return cmp.Compare(rank(a.key), rank(b.key)) }
}

// textLines records the lines of multi-line texts.
type textLines struct{ *layout }

func (t textLines) Visit(n ast.Node) ast.Visitor {
	switch v := n.(type) {
	case *ast.LiteralNode:
		// The text starts after the indicator and is indented deeper than its key.
		first := v.Start.Position.Line
		for i := first; i < len(t.lines); i++ {
			if strings.TrimSpace(t.lines[i]) != "" && leadingBlanks(t.lines[i]) <= t.keyIndent(first-1) {
				break
			}
			t.inText[i] = true
		}
		// Empty lines after the text are not part of it, unless it ends in |+.
		for i := t.lastMarked(first); i >= first && strings.TrimSpace(t.lines[i]) == "" && !strings.Contains(v.Start.Value, "+"); i-- {
			delete(t.inText, i)
		}
	}
	return t
}

func (l *layout) keyIndent(line int) int {
	n := leadingBlanks(l.lines[line])
	for strings.HasPrefix(l.lines[line][n:], "- ") {
		rest := l.lines[line][n+2:]
		n += 2 + leadingBlanks(rest)
	}
	return n
}

func (l *layout) lastMarked(from int) int {
	i := from
	for i < len(l.lines) && l.inText[i] {
		i++
	}
	return i - 1
}

func (l *layout) shift(line string, by int, inText bool) string {
	switch {
	case strings.TrimSpace(line) == "":
		return ""
	case !inText:
		line = strings.TrimRight(line, " \t")
	}
	if by >= 0 {
		return strings.Repeat(" ", by) + line
	}
	return line[min(-by, leadingBlanks(line)):]
}

func (l *layout) shiftedLine(start, end, by int) []string {
	var out []string
	for n := start; n < end; n++ {
		out = append(out, l.shift(l.lines[n], by, l.inText[n]))
	}
	return out
}

func (l *layout) trimmedLine(start, end int) []string { return l.shiftedLine(start, end, 0) }

func leadingBlanks(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func squeezeBlanks(lines []string) []string {
	var out []string
	for _, line := range lines {
		if line == "" && (len(out) == 0 || out[len(out)-1] == "") {
			continue
		}
		out = append(out, line)
	}
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}
