package permission

import (
	"fmt"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission/internal/display"
)

// Bounds on values that are shown to people.
const (
	maxShownText  = 200 // bytes of a text
	maxShownItems = 20  // elements of a list, members of a map
	maxShownDepth = 4
)

// shownValue is a CEL value as JSON shows it, shortened.
func shownValue(v ref.Val, depth int) any {
	switch v := v.(type) {
	case types.Bool:
		return bool(v)
	case types.Int:
		return int64(v)
	case types.Uint:
		return uint64(v)
	case types.Double:
		return float64(v)
	case types.String:
		return display.Visible(display.Shorten(string(v), maxShownText))
	case types.Null:
		return nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano)
	case types.Duration:
		return v.String()
	case *types.Optional:
		if !v.HasValue() {
			return "absent"
		}
		return shownValue(v.GetValue(), depth)
	case *types.Unknown:
		return "unknown"
	}
	if depth >= maxShownDepth {
		return "…"
	}
	switch v := v.(type) {
	case traits.Mapper:
		return shownMap(v, depth)
	case traits.Lister:
		return shownList(v, depth)
	default:
		return "a value of type " + v.Type().TypeName()
	}
}

func shownList(v traits.Lister, depth int) any {
	out := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		if len(out) == maxShownItems {
			return append(out, "…")
		}
		out = append(out, shownValue(it.Next(), depth+1))
	}
	return out
}

func shownMap(v traits.Mapper, depth int) any {
	out := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		if len(out) == maxShownItems {
			out["…"] = fmt.Sprintf("%v members", v.Size().Value())
			break
		}
		key := it.Next()
		out[fmt.Sprint(key.Value())] = shownValue(v.Get(key), depth+1)
	}
	return out
}

// shownText is a value of shownValue in words.
func shownText(v any) string {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
