package permission

import (
	"maps"

	"github.com/goccy/go-yaml/token"
)

// maxYAMLDepth is the deepest nesting of lists and mappings in a rule file:
// that of a call's input, which tests write out. The parser recurses and takes
// time with the cube of the depth, so deeper files must not reach it.
const maxYAMLDepth = 32

// maxYAMLKeys is how many keys one mapping may have. The parser takes time with
// the square of their number.
const maxYAMLKeys = 2000

// badShape returns the first token at which a file is nested more deeply, or has
// more keys in one mapping, than the parser may be given; nil if there is none.
// It may count a level too many on odd files, but never one too few: block levels
// are told by the columns of keys and dashes, flow levels by their brackets.
func badShape(tokens token.Tokens) (at *token.Token, msg, hint string) {
	var blocks []int // columns of the open block levels
	keys := map[int]int{}
	flow := 0
	for _, t := range tokens {
		opener, key := t, true
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
			opener = nil
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
			opener = nil
		case token.MappingValueType: // the colon; its key opens the level
			if flow > 0 {
				continue // its brackets count already
			}
			if t.Prev != nil {
				opener = t.Prev
			}
		case token.MappingKeyType:
		case token.SequenceEntryType:
			key = false
		default:
			opener = nil
		}
		if opener != nil && opener.Position != nil {
			col := opener.Position.Column
			blocks = openBlock(blocks, col)
			if countKey(keys, col, key) > maxYAMLKeys {
				return t, "has too many keys in one mapping", "a mapping has at most 2000"
			}
		}
		if flow+len(blocks) > maxYAMLDepth {
			return t, "is nested too deeply", "rule files have at most 32 levels"
		}
	}
	return nil, "", ""
}

func openBlock(open []int, col int) []int {
	for len(open) > 0 && open[len(open)-1] >= col {
		open = open[:len(open)-1]
	}
	return append(open, col)
}

// countKey counts the keys of the mapping whose keys stand at a column. A key or
// a dash further to the left ends it.
func countKey(keys map[int]int, col int, key bool) int {
	maps.DeleteFunc(keys, func(c, _ int) bool { return c > col })
	if key {
		keys[col]++
	}
	return keys[col]
}
