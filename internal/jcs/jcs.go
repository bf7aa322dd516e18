// Package jcs writes JSON in the canonical form of RFC 8785: no white space, members sorted by
// their names' UTF-16 code units, strings with the fewest escapes, numbers as ECMAScript prints
// doubles. Two documents with the same content have the same bytes, so digests and signatures
// are computed over this form.
//
//	b, err := jcs.Marshal(request)
//	sum := sha256.Sum256(b)
//
// Guarantees: the canonical form of a canonical form is the same, and different values never
// share one. For the latter, it refuses numbers that the form would change, with
// [ErrInexactNumber] (RFC 8785 itself would round them): integers that a double cannot
// represent, such as 9007199254740993, and numbers that become infinite or zero. Fractions
// have the value of the nearest double, as for every other JSON reader. Duplicate names,
// broken UTF-8 and nesting deeper than [MaxDepth] are refused as in internal/strictjson.
//
// It does not limit the size of its input; check that before.
package jcs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrInexactNumber marks a number that the canonical form cannot represent. It is wrapped in
// a [strictjson.Error] that gives the position of the number.
var ErrInexactNumber = errors.New("number cannot be represented exactly; send it as a string")

// MaxDepth is the deepest nesting that has a canonical form here.
const MaxDepth = 1000

// Marshal encodes v with [strictjson.Marshal] and returns its canonical form.
func Marshal(v any) ([]byte, error) { return MarshalAfter("", v) }

// MarshalAfter returns what [Marshal] returns, after a text.
func MarshalAfter(before string, v any) ([]byte, error) {
	if b, ok := strictjson.QuickCanonical(before, v); ok {
		return b, nil
	}
	b, err := strictjson.Marshal(v)
	if err == nil {
		b, err = Canonicalize(b)
	}
	if err != nil {
		return nil, err
	}
	return append([]byte(before), b...), nil
}

// Canonicalize returns the canonical form of one JSON value. It does not write
// to data.
func Canonicalize(data []byte) ([]byte, error) {
	if err := strictjson.Bounds(data, strictjson.MaxBytes(math.MaxInt), strictjson.MaxDepth(MaxDepth)); err != nil {
		return nil, strictjson.Within(err, "canonicalize", "", 0)
	}
	out := jsontext.Value(bytes.Clone(data))
	if err := out.Canonicalize(); err != nil {
		return nil, refusal(data, err)
	}
	if plainNumbers(data) {
		return out, nil
	}
	if err := checkNumbers(data); err != nil {
		return nil, err
	}
	return out, nil
}

// Equal reports whether two JSON values are the same, apart from white space, the order of members,
// escapes, and how a number is written (100, 1e2 and 100.0). Numbers must have the same exact value:
// 9007199254740993.0 and 9007199254740992 differ, although both have the same canonical form.
// Without this rule, an edit of digits that a double lacks would be dropped. A client that parses
// numbers as doubles therefore edits such a number by returning it: what it showed is what runs.
func Equal(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, okX := decodeInOrder(a)
	y, okY := decodeInOrder(b)
	for okX && okY {
		p, errP := x.ReadToken()
		q, errQ := y.ReadToken()
		switch {
		case errP != nil || errQ != nil:
			return errors.Is(errP, io.EOF) && errors.Is(errQ, io.EOF)
		case p.Kind() != q.Kind() || p.String() != q.String() && (p.Kind() != '0' || decimal(p.String()) != decimal(q.String())):
			return false
		}
	}
	return false
}

// decodeInOrder reads data with its members in canonical order and its numbers as written. It returns
// false if data has no canonical order.
func decodeInOrder(data []byte) (*jsontext.Decoder, bool) {
	if strictjson.Bounds(data, strictjson.MaxBytes(math.MaxInt), strictjson.MaxDepth(MaxDepth)) != nil {
		return nil, false
	}
	v := jsontext.Value(bytes.Clone(data))
	err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	return jsontext.NewDecoder(bytes.NewBuffer(v)), err == nil
}

// decimal writes a number as an integer without trailing zeros and its exponent, which is the same
// text for the same value. It keeps an exponent that is too large to calculate with.
func decimal(text string) string {
	digits, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	e, err := strconv.ParseInt(cmp.Or(exponent, "0"), 10, 32)
	if err != nil {
		return text
	}
	abs := strings.TrimPrefix(digits, "-")
	whole, fraction, _ := strings.Cut(abs, ".")
	all := strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(all, "0")
	if short == "" {
		return "0"
	}
	return digits[:len(digits)-len(abs)] + short + "e" + strconv.FormatInt(e+int64(len(all)-len(short)-len(fraction)), 10)
}

// refusal returns the error for data that the library refused with err: the strict reader's
// error, which gives position and fault.
func refusal(data []byte, err error) error {
	strict := strictjson.Check(data, strictjson.MaxBytes(math.MaxInt), strictjson.MaxDepth(MaxDepth))
	if strict == nil {
		strict = checkNumbers(data)
	}
	return strictjson.Within(cmp.Or(strict, err), "canonicalize", "", 0)
}

// plainNumbers reports whether each number in valid JSON is an integer with so few digits that
// every form of it is exact. If not, the numbers are checked one by one.
func plainNumbers(data []byte) bool {
	digits := 0
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			i, digits = strictjson.TextEnd(data, i), 0
		case '0' <= c && c <= '9':
			if digits++; digits > maxPlainDigits {
				return false
			}
		case c == '.' || digits > 0 && (c == 'e' || c == 'E'):
			return false
		default:
			digits = 0
		}
	}
	return true
}

// maxPlainDigits is a length at which all integers are below 2^53.
const maxPlainDigits = 15

// checkNumbers refuses every number whose canonical form is another number.
func checkNumbers(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	for {
		tok, err := dec.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return strictjson.Within(err, "canonicalize", "", 0)
		case tok.Kind() == '0' && !isExact(tok.String()):
			return &strictjson.Error{
				Op:     "canonicalize",
				Path:   string(dec.StackPointer()),
				Offset: dec.InputOffset() - int64(len(tok.String())),
				Err:    fmt.Errorf("%w: %w", strictjson.ErrType, ErrInexactNumber),
			}
		}
	}
}

// isExact reports whether the canonical form keeps the number: an integer as the same integer,
// any other number as a finite double that is zero only if the number is.
func isExact(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false // out of range
	}
	if f == 0 {
		return !strings.ContainsAny(mantissa(text), "123456789")
	}
	if strings.ContainsAny(text, ".eE") || math.Abs(f) < 1<<53 {
		return true
	}
	return sameInteger(text, f)
}

// mantissa returns the number without its exponent.
func mantissa(text string) string {
	m, _, _ := strings.Cut(strings.ToLower(text), "e")
	return m
}

// sameInteger reports whether the shortest decimal form of f, which is what gets printed, is
// the integer text. (2^60 is a double, but prints as 1152921504606847000, another integer.)
func sameInteger(text string, f float64) bool {
	shortest := strconv.FormatFloat(math.Abs(f), 'f', -1, 64)
	return strings.TrimPrefix(text, "-") == shortest
}
