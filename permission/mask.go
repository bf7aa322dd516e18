package permission

import (
	"maps"
	"slices"

	"github.com/askance-dev/askance/message/redact"
)

// hiddenText stands for a text that is not shown.
const hiddenText = "[redacted]"

// maskValue copies a value without what lies at the paths: texts and elements of
// lists are replaced, other members are left out.
func maskValue(v any, paths redact.Paths) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, sub := range v {
			hidden, below := paths.Member(name, isLeaf(sub))
			_, text := sub.(string)
			switch {
			case len(below) == 0:
			case !hidden:
				out[name] = maskValue(sub, below)
			case text:
				out[name] = hiddenText
			default:
				delete(out, name)
			}
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, sub := range v {
			hidden, below := paths.Element(i, isLeaf(sub))
			if hidden {
				out[i] = hiddenText
			} else {
				out[i] = maskValue(sub, below)
			}
		}
		return out
	default:
		return v
	}
}

// isLeaf reports whether a value has nothing below it.
func isLeaf(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}
