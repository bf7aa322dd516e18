package permission

import "github.com/goccy/go-yaml/token"

// maxYAMLDepth is the deepest nesting of lists and mappings in a rule file:
// that of a call's input, which tests write out. The parser recurses and takes time with the
// cube of the depth, so deeper files must not reach it.
const maxYAMLDepth = 32

// tooDeep returns the first token beyond the allowed nesting, nil if there is
// none. It may count a level too many on odd files, but never one too few:
// block levels are told by the columns of keys and dashes, flow levels by their
// brackets.
func tooDeep(tokens token.Tokens) *token.Token {
	var blocks []int // columns of the open block levels
	flow := 0
	for _, t := range tokens {
		opener := t
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.MappingValueType: // the colon; its key opens the level
			if flow > 0 {
				continue // its brackets count already
			}
			if t.Prev != nil {
				opener = t.Prev
			}
			blocks = openBlock(blocks, opener)
		case token.SequenceEntryType, token.MappingKeyType:
			blocks = openBlock(blocks, opener)
		}
		if flow+len(blocks) > maxYAMLDepth {
			return t
		}
	}
	return nil
}

func openBlock(open []int, t *token.Token) []int {
	if t.Position == nil {
		return open
	}
	col := t.Position.Column
	for len(open) > 0 && open[len(open)-1] >= col {
		open = open[:len(open)-1]
	}
	return append(open, col)
}
