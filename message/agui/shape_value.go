package agui

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// maxSafe is the largest integer that a JavaScript number holds exactly.
const maxSafe = 1<<53 - 1

// text is a required string.
func (s *shape) text(name string, v *string) {
	if s.err != nil {
		return
	}
	if !s.reading {
		s.key(name)
		s.quote(name, *v)
		return
	}
	if m, ok := s.require(name); ok {
		s.readText(name, m, v)
	}
}

// textOpt is an optional string; nil is absent.
func (s *shape) textOpt(name string, v **string) {
	if !s.reading {
		if *v != nil {
			s.text(name, *v)
		}
		return
	}
	if m, ok := s.findOptional(name); ok {
		t := new(string)
		s.readText(name, m, t)
		*v = t
	}
}

func (s *shape) readText(name string, m strictjson.Member, v *string) {
	t, err := strictjson.Text(m.Value)
	if err != nil {
		s.fail(name, m.Offset, err)
	}
	*v = t
}

func (s *shape) quote(name, v string) {
	out, err := strictjson.AppendString(s.out, v)
	if err != nil {
		s.fail(name, -1, err)
		return
	}
	s.out = out
}

// textsOpt is an optional array of strings; nil is absent.
func (s *shape) textsOpt(name string, v *[]string) {
	if s.reading {
		if m, ok := s.findOptional(name); ok {
			s.readTexts(name, m, v)
		}
		return
	}
	if *v == nil || s.err != nil {
		return
	}
	s.key(name)
	s.out = append(s.out, '[')
	for i, t := range *v {
		if i > 0 {
			s.out = append(s.out, ',')
		}
		s.quote(name, t)
	}
	s.out = append(s.out, ']')
}

func (s *shape) readTexts(name string, m strictjson.Member, v *[]string) {
	items, err := strictjson.Items(m.Value)
	if err != nil {
		s.fail(name, m.Offset, err)
		return
	}
	*v = make([]string, len(items))
	for i, item := range items {
		if (*v)[i], err = strictjson.Text(item.Value); err != nil {
			s.fail(name, m.Offset, strictjson.Within(err, "decode", "/"+strconv.Itoa(i), int64(item.Offset)))
			return
		}
	}
}

// word is a required string of a closed list.
func word[T ~string](s *shape, name string, v *T, words []T) {
	t := string(*v)
	if s.reading {
		s.text(name, &t)
	}
	if s.err == nil && !slices.Contains(words, T(t)) {
		s.fail(name, -1, strictjson.Wrong(strictjson.ErrType, "%.60q is none of %v", t, words))
	}
	if s.reading {
		*v = T(t)
		return
	}
	s.text(name, &t)
}

// wordOpt is an optional string of a closed list; nil is absent.
func wordOpt[T ~string](s *shape, name string, v **T, words []T) {
	if !s.reading {
		if *v != nil {
			word(s, name, *v, words)
		}
		return
	}
	if _, ok := s.findOptional(name); ok {
		*v = new(T)
		word(s, name, *v, words)
	}
}

// constant is a required string with one possible value.
func (s *shape) constant(name, value string) {
	word(s, name, &value, []string{value})
}

// discriminator is a constant that is written without a check.
func (s *shape) discriminator(name, value string) {
	if s.reading {
		s.constant(name, value)
		return
	}
	s.key(name)
	s.quote(name, value)
}

// pointer is a required JSON pointer (RFC 6901).
func (s *shape) pointer(name string, v *string) {
	s.text(name, v)
	if s.err == nil && !isPointer(*v) {
		s.fail(name, -1, strictjson.Wrong(strictjson.ErrType, "%.60q is no JSON pointer", *v))
	}
}

func isPointer(p string) bool {
	if p != "" && p[0] != '/' {
		return false
	}
	for i := 0; i < len(p); i++ {
		if p[i] == '~' && (i+1 == len(p) || p[i+1] != '0' && p[i+1] != '1') {
			return false
		}
	}
	return true
}

// integerOpt is an optional integer from least up to the largest safe one; nil
// is absent.
func (s *shape) integerOpt(name string, v **int64, least int64) {
	if s.reading {
		if m, ok := s.findOptional(name); ok {
			n, err := integer(m.Value)
			if err != nil {
				s.fail(name, m.Offset, err)
			}
			*v = &n
		}
	}
	if *v == nil || s.err != nil {
		return
	}
	if **v < least || **v > maxSafe {
		s.fail(name, -1, strictjson.Wrong(strictjson.ErrType, "%d is not between %d and %d", **v, least, maxSafe))
		return
	}
	if !s.reading {
		s.key(name)
		s.out = strconv.AppendInt(s.out, **v, 10)
	}
}

// integer reads a number by its value, as JavaScript does: 2.0 and 2e0 are 2.
func integer(value []byte) (int64, error) {
	n, err := strictjson.Int(value)
	if err == nil || strictjson.KindOf(value) != "number" {
		return n, err
	}
	f, parseErr := strconv.ParseFloat(string(value), 64)
	if parseErr != nil || f != math.Trunc(f) || math.Abs(f) > maxSafe {
		return 0, err
	}
	return int64(f), nil
}

// boolOpt is an optional boolean; nil is absent.
func (s *shape) boolOpt(name string, v **bool) {
	if !s.reading {
		if *v != nil && s.err == nil {
			s.key(name)
			s.out = strconv.AppendBool(s.out, **v)
		}
		return
	}
	if m, ok := s.findOptional(name); ok {
		b, err := strictjson.Bool(m.Value)
		if err != nil {
			s.fail(name, m.Offset, err)
		}
		*v = &b
	}
}

// raw is a required JSON value, null too.
func (s *shape) raw(name string, v *message.RawJSON) {
	if s.err != nil {
		return
	}
	if !s.reading {
		if *v == nil {
			s.fail(name, -1, strictjson.Wrong(strictjson.ErrMissingMember, "%q", name))
			return
		}
		s.writeRaw(name, *v)
		return
	}
	if m, ok := s.require(name); ok {
		*v = bytes.Clone(m.Value)
	}
}

// rawOpt is an optional JSON value that is not null; nil is absent.
func (s *shape) rawOpt(name string, v *message.RawJSON) {
	s.kindOpt(name, v, func(kind string) bool { return kind != "null" }, "anything but null")
}

// objectOpt is an optional JSON object; nil is absent.
func (s *shape) objectOpt(name string, v *message.RawJSON) {
	s.kindOpt(name, v, isObject, "object")
}

// object is a required JSON object.
func (s *shape) object(name string, v *message.RawJSON) {
	s.raw(name, v)
	s.checkKind(name, *v, isObject, "object")
}

func isObject(kind string) bool { return kind == "object" }

func (s *shape) kindOpt(name string, v *message.RawJSON, fits func(string) bool, want string) {
	if s.reading {
		if m, ok := s.findOptional(name); ok {
			*v = bytes.Clone(m.Value)
			s.checkKind(name, *v, fits, want)
		}
		return
	}
	if *v != nil && s.err == nil {
		s.writeRaw(name, *v)
		s.checkKind(name, *v, fits, want)
	}
}

func (s *shape) checkKind(name string, v []byte, fits func(string) bool, want string) {
	if s.err != nil {
		return
	}
	if kind := strictjson.KindOf(v); !fits(kind) {
		s.fail(name, -1, strictjson.Wrong(strictjson.ErrType, "want %s, got %s", want, kind))
	}
}

// writeRaw writes JSON that is passed through, on one line: a line break, which
// outside of strings is white space, would end a frame of SSE.
func (s *shape) writeRaw(name string, v []byte) {
	if err := strictjson.Check(v, strictjson.MaxBytes(math.MaxInt)); err != nil {
		s.fail(name, -1, err)
		return
	}
	s.key(name)
	for _, c := range v {
		if c != '\n' && c != '\r' {
			s.out = append(s.out, c)
		}
	}
}
