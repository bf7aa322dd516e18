package mutatetest

import (
	"bytes"
	"iter"
	"slices"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
)

// Each yields every mutation of a JSON document with its description. The document must be
// valid.
func Each(doc []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		mutate(bytes.TrimSpace(doc), "", yield)
	}
}

// mutate yields the mutations of one value and reports whether to continue.
func mutate(value []byte, at string, yield func(string, []byte) bool) bool {
	kind := strictjson.KindOf(value)
	for _, other := range others(value, kind) {
		if !bytes.Equal(other, value) && !yield(at+" is "+short(other), other) {
			return false
		}
	}
	switch kind {
	case "object":
		parts, err := strictjson.Members(value)
		return err != nil || inside(parts, true, at, yield)
	case "array":
		parts, err := strictjson.Items(value)
		return err != nil || inside(parts, false, at, yield)
	case "string":
		return quoted(value, at, yield)
	}
	return true
}

// others returns values to replace one with.
func others(value []byte, kind string) [][]byte {
	out := [][]byte{[]byte("null")}
	switch kind {
	case "string":
		out = append(out, []byte("7"))
		text, err := strictjson.Text(value)
		if err != nil || text == "" {
			return out
		}
		middle := []byte(text)
		if i := len(middle) / 2; middle[i] < 0x7f {
			middle[i] ^= 1
		}
		for _, s := range []string{"", text + "x", string(middle)} {
			if b, err := strictjson.AppendString(nil, s); err == nil { // otherwise it is no longer a string
				out = append(out, b)
			}
		}
	case "number":
		if n, err := strictjson.Int(value); err == nil {
			out = append(out, strconv.AppendInt(nil, n+1, 10), strconv.AppendInt(nil, n-1, 10), []byte("0"))
		}
	case "boolean":
		out = append(out, []byte("true"), []byte("false"))
	case "object", "array":
		out = append(out, []byte("{}"), []byte("[]"))
	}
	return out
}

// quoted mutates a string that is JSON itself.
func quoted(value []byte, at string, yield func(string, []byte) bool) bool {
	text, err := strictjson.Text(value)
	if err != nil || text == "" || text[0] != '{' && text[0] != '[' || strictjson.Check([]byte(text)) != nil {
		return true
	}
	return mutate([]byte(text), at+"›", func(what string, inner []byte) bool {
		b, err := strictjson.AppendString(nil, string(inner))
		return err != nil || yield(what, b)
	})
}

// inside mutates the parts of an object or an array.
func inside(parts []strictjson.Member, object bool, at string, yield func(string, []byte) bool) bool {
	put := func(what string, parts []strictjson.Member) bool { return yield(what, join(parts, object)) }
	for i, p := range parts {
		here := at + "/" + name(p, i, object)
		ok := put(here+" left out", slices.Delete(slices.Clone(parts), i, i+1)) &&
			put(here+" twice", slices.Insert(slices.Clone(parts), i, p))
		if ok && i > 0 {
			swapped := slices.Clone(parts)
			swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
			ok = put(here+" moved up", swapped)
		}
		ok = ok && mutate(p.Value, here, func(what string, v []byte) bool {
			changed := slices.Clone(parts)
			changed[i].Value = v
			return put(what, changed)
		})
		if !ok {
			return false
		}
	}
	return put(at+" with one more", append(slices.Clone(parts), strictjson.Member{Name: "one_more", Value: []byte("1")}))
}

func name(p strictjson.Member, i int, object bool) string {
	if object {
		return p.Name
	}
	return strconv.Itoa(i)
}

func join(parts []strictjson.Member, object bool) []byte {
	out := []byte{'['}
	if object {
		out[0] = '{'
	}
	for i, p := range parts {
		if i > 0 {
			out = append(out, ',')
		}
		if object {
			out, _ = strictjson.AppendString(out, p.Name) // it was decoded as a string
			out = append(out, ':')
		}
		out = append(out, p.Value...)
	}
	if object {
		return append(out, '}')
	}
	return append(out, ']')
}

func short(b []byte) string {
	if len(b) > 40 {
		return string(b[:40]) + "…"
	}
	return string(b)
}
