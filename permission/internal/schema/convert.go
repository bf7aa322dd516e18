package schema

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxExactInt is the magnitude up to which every integer is a float64. The
// float64 of exactly this value may have been the next integer.
const maxExactInt = 1 << 53

// convert gives the numbers in v the Go type of their schema: int64 for
// integers, float64 for numbers. Rules compare exactly what the tool will get,
// so a number that the type cannot hold exactly is refused. v is changed in
// place; the result replaces it.
func (t *Type) convert(v any) (any, *Error) {
	if !t.converts {
		return v, nil
	}
	switch val := v.(type) {
	case float64:
		if t.Kind == KindInt {
			return toInt(val)
		}
	case int64:
		if t.Kind == KindDouble {
			return toDouble(val)
		}
	case []any:
		if t.Kind == KindList {
			return v, t.convertItems(val)
		}
	case map[string]any:
		return v, t.convertMembers(val)
	}
	return v, nil
}

func (t *Type) convertItems(items []any) *Error {
	if !t.Elem.converts {
		return nil
	}
	for i := range items {
		out, err := t.Elem.convert(items[i])
		if err != nil {
			return err.below(strconv.Itoa(i))
		}
		items[i] = out
	}
	return nil
}

func (t *Type) convertMembers(m map[string]any) *Error {
	if t.Kind == KindStruct && t.isResolved(m) {
		return nil
	}
	for name, v := range m {
		sub := t.Elem // of a map
		if t.Kind == KindStruct {
			var declared bool
			if sub, declared = t.Fields[name]; !declared {
				if err := t.twin(name); err != nil {
					return err.below(name)
				}
			}
		}
		if sub == nil || !sub.converts {
			continue
		}
		out, err := sub.convert(v)
		if err != nil {
			return err.below(name)
		}
		m[name] = out // of an existing key: safe while ranging
	}
	return nil
}

// resolved reports that every member of an object is declared and has the Go type
// of its schema, as is usual: then nothing is to be converted.
func (t *Type) isResolved(m map[string]any) bool {
	declared := 0
	for i := range t.members {
		if v, ok := m[t.members[i].name]; ok {
			if declared++; !t.members[i].is.isTyped(v) {
				return false
			}
		}
	}
	return declared == len(m)
}

// typed reports that a value needs no converting.
func (t *Type) isTyped(v any) bool {
	switch v.(type) {
	case int64:
		return t.Kind == KindInt || !t.converts
	case float64:
		return t.Kind == KindDouble || !t.converts
	default:
		return !t.converts
	}
}

// twin refuses a member that is a declared one but for its case: rules would see
// "amount", and a tool whose decoder does not care would take "Amount".
func (t *Type) twin(name string) *Error {
	twin := ""
	for declared := range t.Fields {
		if strings.EqualFold(declared, name) && (twin == "" || declared < twin) {
			twin = declared
		}
	}
	if twin == "" {
		return nil
	}
	return inputFault(fmt.Sprintf("differs from the declared member %q in case alone, and some programs take one for the other", twin))
}

func toInt(f float64) (any, *Error) {
	if f != math.Trunc(f) || math.Abs(f) >= maxExactInt {
		return nil, inputFault(fmt.Sprintf("%v is not an exact 64-bit integer", f))
	}
	return int64(f), nil
}

func toDouble(i int64) (any, *Error) {
	if i > maxExactInt || i < -maxExactInt {
		return nil, inputFault(fmt.Sprintf("%d is too large for a number, declare it as integer or send it as a string", i))
	}
	return float64(i), nil
}

func inputFault(msg string) *Error {
	return &Error{Violations: []Violation{{Msg: msg}}}
}

// under puts a conversion error below the member or element of that name.
func (e *Error) below(name string) *Error {
	e.Violations[0].Pointer = "/" + pointerEscaper.Replace(name) + e.Violations[0].Pointer
	return e
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")
