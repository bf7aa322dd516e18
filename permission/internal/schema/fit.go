package schema

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxExactInt is the magnitude up to which float64 can represent every integer. A float64 of
// exactly this value may have been the next integer.
const maxExactInt = 1 << 53

// fit reports that a value certainly matches a plain type, and converts its numbers to their Go
// types; v is changed in place, and the result replaces it. Most inputs match, and fit finds that
// out many times faster than the library. false says nothing: the library then decides, and words
// the refusal.
func (t *Type) fit(v any) (any, bool) {
	switch val := v.(type) {
	case string:
		return v, t.allows(KindString) && t.fitsText(val)
	case int64:
		if t.Kind == KindDouble && val > -maxExactInt && val < maxExactInt {
			return float64(val), true
		}
		return v, t.allows(KindInt)
	case float64:
		return v, t.allows(KindDouble)
	case bool:
		return v, t.allows(KindBool)
	case nil:
		return v, t.Kind == KindDyn && t.allows(KindDyn)
	case []any:
		return v, t.allows(KindList) && t.fitsList(val)
	case map[string]any:
		if t.Kind == KindStruct {
			return v, t.fitsStruct(val)
		}
		return v, t.allows(KindMap) && t.fitsMap(val)
	default:
		return v, false
	}
}

func (t *Type) allows(kind Kind) bool {
	if t.Kind != KindDyn {
		return t.Kind == kind
	}
	return t.kinds == 0 || t.kinds&(1<<kind) != 0 || kind == KindInt && t.kinds&(1<<KindDouble) != 0
}

func (t *Type) fitsText(s string) bool {
	if t.enum != nil && !slices.Contains(t.enum, s) {
		return false
	}
	if t.minLen == 0 && (t.MaxLen < 0 || len(s) <= t.MaxLen) {
		return true // no more characters than bytes
	}
	n := utf8.RuneCountInString(s)
	return n >= t.minLen && (t.MaxLen < 0 || n <= t.MaxLen)
}

func (t *Type) fitsList(list []any) bool {
	if len(list) < t.minLen || t.MaxLen >= 0 && len(list) > t.MaxLen {
		return false
	}
	for i := 0; i < len(list) && t.Elem != nil; i++ {
		out, ok := t.Elem.fit(list[i])
		if !ok {
			return false
		}
		list[i] = out
	}
	return true
}

func (t *Type) fitsMap(m map[string]any) bool {
	if t.closed && len(m) > 0 {
		return false
	}
	if t.Elem == nil || t.Elem.Kind == KindDyn && t.Elem.kinds == 0 {
		return true
	}
	for name, v := range m {
		out, ok := t.Elem.fit(v)
		if !ok {
			return false
		}
		m[name] = out // overwrites an existing key: safe while ranging
	}
	return true
}

func (t *Type) fitsStruct(m map[string]any) bool {
	for _, name := range t.Required {
		if _, ok := m[name]; !ok {
			return false
		}
	}
	declared := 0
	for i := range t.members {
		name, is := t.members[i].name, t.members[i].is
		v, ok := m[name]
		if !ok {
			continue
		}
		declared++
		out, ok := is.fit(v)
		if !ok {
			return false
		}
		if is.Kind == KindDouble {
			m[name] = out
		}
	}
	if declared == len(m) {
		return true
	}
	for name := range m {
		if t.Fields[name] == nil && (t.closed || t.findTwin(name) != nil) {
			return false
		}
	}
	return true
}

// convert gives the numbers in v the Go type of their schema: int64 for integers, float64 for
// numbers. Rules compare exactly what the tool will get, so a number that the type cannot hold
// exactly is refused. v is changed in place; the result replaces it.
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
			return err.prefixPath(strconv.Itoa(i))
		}
		items[i] = out
	}
	return nil
}

func (t *Type) convertMembers(m map[string]any) *Error {
	for name, v := range m {
		sub := t.Elem // of a map
		if t.Kind == KindStruct {
			var declared bool
			if sub, declared = t.Fields[name]; !declared {
				if err := t.findTwin(name); err != nil {
					return err.prefixPath(name)
				}
			}
		}
		if sub == nil || !sub.converts {
			continue
		}
		out, err := sub.convert(v)
		if err != nil {
			return err.prefixPath(name)
		}
		m[name] = out // overwrites an existing key: safe while ranging
	}
	return nil
}

// findTwin refuses a member that differs from a declared one only in case: rules would see
// "amount", while a tool with a case-insensitive decoder would read "Amount".
func (t *Type) findTwin(name string) *Error {
	twin := ""
	for declared := range t.Fields {
		if strings.EqualFold(declared, name) && (twin == "" || declared < twin) {
			twin = declared
		}
	}
	if twin == "" {
		return nil
	}
	return inputFault(fmt.Sprintf("differs from the declared member %q only in case, and some programs confuse the two", twin))
}

func toInt(f float64) (any, *Error) {
	if f != math.Trunc(f) || math.Abs(f) >= maxExactInt {
		return nil, inputFault(fmt.Sprintf("%v is not an exact 64-bit integer", f))
	}
	return int64(f), nil
}

func toDouble(i int64) (any, *Error) {
	if i > maxExactInt || i < -maxExactInt {
		return nil, inputFault(fmt.Sprintf("%d is too large for a number; declare it as integer or send it as a string", i))
	}
	return float64(i), nil
}

func inputFault(msg string) *Error {
	return &Error{Violations: []Violation{{Msg: msg}}}
}

// prefixPath moves a conversion error below the member or element of that name.
func (e *Error) prefixPath(name string) *Error {
	e.Violations[0].Pointer = "/" + pointerEscaper.Replace(name) + e.Violations[0].Pointer
	return e
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")
