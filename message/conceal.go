package message

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// What rules redact is hidden from people and records, and still bound by the
// approval request's digest: the digest is made of the arguments with a commitment in
// the place of each hidden value. A commitment is an HMAC under the approval request's
// salt, so that a short secret cannot be guessed from it; whoever has the salt
// and the value can prove that they belong to the digest.

// hiddenMark begins what stands in the place of a hidden value.
const hiddenMark = "[redacted"

// hiddenDomain keeps a commitment from being any other HMAC.
const hiddenDomain = "askance-hidden-v1\x00"

// spot is a hidden value within a JSON text.
type spot struct {
	start, end int
	place      string // the path to it, of this very value
}

// conceal gives the arguments with what lies at the paths replaced: by
// commitments under the salt, or without one by a bare mark. Everything else
// stays byte for byte. Arguments that cannot be taken apart, or are no object,
// are hidden as a whole.
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

// mark is what stands in the place of a value; it needs no escaping in JSON.
func mark(value, place, salt string) string {
	if salt == "" {
		return hiddenMark + "]"
	}
	m := hmac.New(sha256.New, []byte(salt))
	m.Write([]byte(hiddenDomain + place + "\x00" + value)) // never fails
	return hiddenMark + " hmac-sha256:" + hex.EncodeToString(m.Sum(nil)) + "]"
}

// reveal is the way back for arguments that somebody edited who saw the
// concealed ones: each mark in a hidden place becomes the value for which it
// stands in original. A mark that stands for none of them, or in a place that
// is not hidden, is an error.
func reveal(edited, original string, paths []string, salt string) (string, error) {
	if edited == conceal(original, paths, salt) {
		return original, nil
	}
	values := map[string]string{}
	for _, s := range spots(original, paths) {
		value := original[s.start:s.end]
		values[strconv.Quote(mark(value, s.place, salt))] = value
	}
	var b strings.Builder
	at := 0
	for _, s := range spots(edited, paths) {
		b.WriteString(edited[at:s.start])
		value := edited[s.start:s.end]
		if known, is := values[value]; is {
			value = known
		}
		b.WriteString(value)
		at = s.end
	}
	b.WriteString(edited[at:])
	if strings.Contains(b.String(), hiddenMark) && !strings.Contains(original, hiddenMark) {
		return "", errors.New("a mark of a hidden value stands where that value does not belong")
	}
	return b.String(), nil
}

// spots finds the hidden values of a JSON text, in order.
func spots(input string, paths []string) []spot {
	whole := []spot{{0, len(input), "args"}}
	if strictjson.KindOf([]byte(input)) != "object" || strictjson.Check([]byte(input), strictjson.MaxBytes(len(input)+1)) != nil {
		return whole
	}
	var split []rest
	for _, p := range paths {
		steps, ok := hiddenPath(p)
		if !ok || len(steps) == 0 {
			return whole
		}
		split = append(split, rest{steps: steps})
	}
	found, err := appendSpots(nil, []byte(input), 0, "args", split)
	if err != nil {
		return whole
	}
	return found
}

// appendSpots looks through one value, which begins at offset. A path that
// names a member of an array means that member of every element, and where a
// path leads into a text, a number, a boolean or null, that is hidden as a
// whole: hiding too much is the safe side.
func appendSpots(out []spot, value []byte, offset int, place string, paths []rest) ([]spot, error) {
	var parts []strictjson.Member
	var err error
	array := strictjson.KindOf(value) == "array"
	if array {
		parts, err = strictjson.Items(value)
	} else {
		parts, err = strictjson.Members(value)
	}
	for i, p := range parts {
		name := p.Name
		if array {
			name = strconv.Itoa(i)
		}
		below, start, leaf := under(paths, name), offset+p.Offset, !holds(p.Value)
		hide := ends(below) || leaf && slices.ContainsFunc(below, rest.cuts)
		if array {
			hide = hide || leaf && slices.ContainsFunc(paths, rest.namesMember)
			below = append(below, everyElement(paths)...)
		}
		at := place + "[" + strconv.Quote(name) + "]"
		switch {
		case hide:
			out = append(out, spot{start, start + len(p.Value), at})
		case len(below) > 0 && !leaf && err == nil:
			out, err = appendSpots(out, p.Value, start, at, below)
		}
	}
	return out, err
}

// rest is what is left of a path below some value.
type rest struct {
	steps []string
	// wide: it is meant for the elements of an array by its star alone, and was
	// carried on below them. It hides what it names there, and cuts nothing off.
	wide bool
}

// cuts reports whether a value below which the path leads is hidden where there
// is nothing below.
func (r rest) cuts() bool { return !r.wide }

// namesMember reports whether a path goes on with the name of a member, and not
// with the number of an element or a star.
func (r rest) namesMember() bool {
	return !r.wide && strings.Trim(r.steps[0], "0123456789") != "" && r.steps[0] != anyMember
}

// under gives what is left of the paths behind a member.
func under(paths []rest, name string) []rest {
	var out []rest
	for _, p := range paths {
		if p.steps[0] == name || p.steps[0] == anyMember {
			out = append(out, rest{p.steps[1:], p.wide})
		}
	}
	return out
}

// everyElement carries paths into an array on to each of its elements.
func everyElement(paths []rest) []rest {
	out := slices.Clone(paths)
	for i := range out {
		out[i].wide = out[i].wide || out[i].steps[0] == anyMember
	}
	return out
}

// holds reports whether a value can have something below it.
func holds(value []byte) bool {
	kind := strictjson.KindOf(value)
	return kind == "object" || kind == "array"
}

// ends reports whether one of the paths is walked to its end.
func ends(paths []rest) bool {
	return slices.ContainsFunc(paths, func(p rest) bool { return len(p.steps) == 0 })
}
