package toolcall

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/redact"
)

// What rules redact is hidden from people and records, but the approval request's
// digest still covers it: the digest is computed from the arguments with a commitment
// in place of each hidden value. A commitment is an HMAC keyed with the approval
// request's salt, so a short secret cannot be guessed from it. With the salt and the
// value anyone can prove that they belong to the digest.

// hiddenMark begins the text that replaces a hidden value.
const hiddenMark = "[redacted"

// hiddenDomain separates commitments from other HMACs.
const hiddenDomain = "askance-hidden-v1\x00"

// spot is a hidden value within a JSON text.
type spot struct {
	start, end int
	place      string // the path to this value
}

// conceal returns the arguments with the values at the paths replaced: by commitments
// keyed with the salt, or by a bare mark if salt is "". All other bytes are unchanged.
// Arguments that cannot be parsed, or are not an object, are hidden as a whole.
func conceal(input string, paths []string, salt string) string {
	if len(paths) == 0 {
		return input
	}
	var b strings.Builder
	at := 0
	for _, s := range spots(input, paths) {
		b.WriteString(input[at:s.start])
		b.WriteString(strconv.Quote(mark(input[s.start:s.end], s.place, salt)))
		at = s.end
	}
	b.WriteString(input[at:])
	return b.String()
}

// mark returns the text that replaces a value; it needs no escaping in JSON.
func mark(value, place, salt string) string {
	if salt == "" {
		return hiddenMark + "]"
	}
	m := hmac.New(sha256.New, []byte(salt))
	m.Write([]byte(hiddenDomain + place + "\x00" + value)) // never fails
	return hiddenMark + " hmac-sha256:" + hex.EncodeToString(m.Sum(nil)) + "]"
}

// reveal is the inverse of conceal for arguments that a reader of the concealed ones
// edited: each mark becomes the value that original has in the same place. A mark in
// any other place is an error, because its reader cannot see what moves.
func reveal(edited, original string, paths []string, salt string) (string, error) {
	if edited == conceal(original, paths, salt) {
		return original, nil
	}
	values := map[string]string{} // by mark and place
	var marks []string
	for _, s := range spots(original, paths) {
		value := original[s.start:s.end]
		m := mark(value, s.place, salt)
		values[strconv.Quote(m)+s.place] = value
		marks = append(marks, m)
	}
	var b strings.Builder
	at := 0
	for _, s := range spots(edited, paths) {
		b.WriteString(edited[at:s.start])
		value := edited[s.start:s.end]
		if known, is := values[value+s.place]; is {
			value = known
		}
		b.WriteString(value)
		at = s.end
	}
	b.WriteString(edited[at:])
	if !strings.Contains(original, hiddenMark) {
		marks = append(marks, hiddenMark)
	}
	if slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(b.String(), m) }) {
		return "", errors.New("a mark of a hidden value stands where that value does not belong")
	}
	return b.String(), nil
}

// spots returns the hidden values of a JSON text, in order.
func spots(input string, paths []string) []spot {
	whole := []spot{{0, len(input), "args"}}
	if strictjson.KindOf([]byte(input)) != "object" || strictjson.Check([]byte(input), strictjson.MaxBytes(len(input)+1)) != nil {
		return whole
	}
	var into []redact.Path
	for _, text := range paths {
		p, err := redact.Parse(text)
		if err != nil || p.Root != "args" || len(p.Steps) == 0 {
			return whole
		}
		into = append(into, p)
	}
	found, err := appendSpots(nil, []byte(input), 0, "args", redact.Below(into...))
	if err != nil {
		return whole
	}
	return found
}

// appendSpots searches one value, which begins at offset.
func appendSpots(out []spot, value []byte, offset int, place string, paths redact.Paths) ([]spot, error) {
	var parts []strictjson.Member
	var err error
	array := strictjson.KindOf(value) == "array"
	if array {
		parts, err = strictjson.Items(value)
	} else {
		parts, err = strictjson.Members(value)
	}
	for i, p := range parts {
		name, start, leaf := p.Name, offset+p.Offset, isLeaf(p.Value)
		var hidden bool
		var below redact.Paths
		if array {
			name = strconv.Itoa(i)
			hidden, below = paths.Element(i, leaf)
		} else {
			hidden, below = paths.Member(name, leaf)
		}
		at := place + "[" + strconv.Quote(name) + "]"
		switch {
		case hidden:
			out = append(out, spot{start, start + len(p.Value), at})
		case len(below) > 0 && !leaf && err == nil:
			out, err = appendSpots(out, p.Value, start, at, below)
		}
	}
	return out, err
}

// isLeaf reports whether a value contains no other values.
func isLeaf(value []byte) bool {
	kind := strictjson.KindOf(value)
	return kind != "object" && kind != "array"
}
