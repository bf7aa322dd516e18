package shell

import "strings"

// glob is a text with stars that each stand for any text. It is matched
// in one pass: a rule is asked about every command of a line, however long.
type glob struct {
	pieces []string // between the stars
	// rest: a blank and anything may follow, as a last " *" matches also nothing.
	rest bool
}

// readGlob takes the pieces of a wildcard apart; \* and \\ are characters.
func readGlob(content string) glob {
	body, rest := strings.CutSuffix(content, " *")
	g := glob{rest: rest}
	var piece strings.Builder
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '*':
			g.pieces = append(g.pieces, piece.String())
			piece.Reset()
			continue
		case c == '\\' && i+1 < len(body) && (body[i+1] == '*' || body[i+1] == '\\'):
			i++
		}
		piece.WriteByte(body[i])
	}
	g.pieces = append(g.pieces, piece.String())
	return g
}

// matchesText says whether the whole text is one of the glob.
func (g glob) matchesText(text string) bool {
	text, ok := strings.CutPrefix(text, g.pieces[0])
	if !ok {
		return false
	}
	if len(g.pieces) == 1 {
		return text == "" || g.rest && text[0] == ' '
	}
	last := len(g.pieces) - 1
	for _, piece := range g.pieces[1:last] { // as early as possible leaves most for the others
		if _, text, ok = strings.Cut(text, piece); !ok {
			return false
		}
	}
	return strings.HasSuffix(text, g.pieces[last]) || g.rest && strings.Contains(text, g.pieces[last]+" ")
}
