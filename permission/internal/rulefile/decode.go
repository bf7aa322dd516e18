package rulefile

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/goccy/go-yaml/ast"
)

// nodeReader is implemented by types of keys that decode themselves.
type nodeReader interface {
	readNode(d *reader, n ast.Node, field string)
}

// decode reads a mapping into a struct of keys. It reports whether the node is a mapping at all;
// other faults are added to the reader's problems. In them prefix precedes the names of keys.
func (d *reader) decode(n ast.Node, prefix string, into any) bool {
	return d.decodeStruct(n, prefix, reflect.ValueOf(into).Elem())
}

func (d *reader) decodeStruct(n ast.Node, prefix string, into reflect.Value) bool {
	keys := keysOf(into.Type())
	m, ok := d.readMapping(n, prefix, keyNames(keys))
	if !ok {
		return false
	}
	for _, k := range keys {
		field := joinField(prefix, k.name)
		switch v := m[k.name]; {
		case v != nil:
			d.notePlace(field, v)
			d.decodeValue(v, field, k, into.Field(k.index))
		case k.need != "":
			d.addFault(n, field, "is missing", k.need)
		}
	}
	return true
}

type keyTags struct {
	name, doc, hint, need, null string
	words                       []string
	filled                      bool
	min, index                  int
}

// knownKeys caches keysOf, because there are many rules of the same type.
var knownKeys sync.Map // reflect.Type → []keyTags, never changed

// keysOf reads the tags of a struct type. The result is shared and must not be changed.
func keysOf(t reflect.Type) []keyTags {
	if known, ok := knownKeys.Load(t); ok {
		return known.([]keyTags)
	}
	keys := readKeys(t)
	knownKeys.Store(t, keys)
	return keys
}

func readKeys(t reflect.Type) []keyTags {
	var out []keyTags
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if tag.Get("key") == "" {
			continue // fields of the reader
		}
		k := keyTags{name: tag.Get("key"), doc: tag.Get("doc"), hint: tag.Get("hint"), need: tag.Get("need"),
			null: tag.Get("null"), filled: tag.Get("filled") != "", index: i}
		if w := tag.Get("words"); w != "" {
			k.words = strings.Split(w, ",")
		}
		k.min, _ = strconv.Atoi(tag.Get("min")) // absent: 0
		out = append(out, k)
	}
	return out
}

func keyNames(keys []keyTags) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.name
	}
	return out
}

var durationType = reflect.TypeFor[time.Duration]()

func (d *reader) decodeValue(n ast.Node, field string, k keyTags, into reflect.Value) {
	if into.Kind() == reflect.Pointer {
		d.decodePointer(n, field, k, into)
		return
	}
	if r, ok := reflect.TypeAssert[nodeReader](into.Addr()); ok {
		r.readNode(d, n, field)
		return
	}
	switch {
	case into.Type() == durationType:
		into.SetInt(int64(d.readDuration(n, field)))
	case into.Kind() == reflect.String:
		into.SetString(d.readWord(n, field, k))
	case into.Kind() == reflect.Bool:
		into.SetBool(d.readBool(n, field))
	case into.Kind() == reflect.Int:
		into.SetInt(int64(d.readInteger(n, field, k.min)))
	case into.Kind() == reflect.Struct:
		d.decodeStruct(n, field, into)
	case into.Kind() == reflect.Slice && into.Type().Elem().Kind() == reflect.String:
		into.Set(reflect.ValueOf(d.readTexts(n, field)))
	default:
		d.decodeList(n, field, into)
	}
}

func (d *reader) decodePointer(n ast.Node, field string, k keyTags, into reflect.Value) {
	if n.Type() == ast.NullType && k.null != "" {
		if k.null == "empty" {
			into.Set(reflect.New(into.Type().Elem()))
		}
		return
	}
	v := reflect.New(into.Type().Elem())
	before := len(*d.found)
	d.decodeValue(n, field, k, v.Elem())
	if len(*d.found) == before {
		into.Set(v)
	}
}

func (d *reader) decodeList(n ast.Node, field string, into reflect.Value) {
	items, ok := d.readList(n, field)
	if !ok {
		return
	}
	list := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", field, i)
		d.notePlace(at, item)
		d.decodeValue(item, at, keyTags{}, list.Index(i))
	}
	into.Set(list)
}

func (d *reader) readWord(n ast.Node, field string, k keyTags) string {
	s, ok := d.readText(n, field)
	switch {
	case !ok:
	case len(k.words) > 0 && !slices.Contains(k.words, s):
		d.addFault(n, field, "is "+display.Quoted(s)+", want "+spelling.OrList(k.words), cmp.Or(k.hint, hint.DidYouMean(s, k.words)))
		return ""
	case k.filled && strings.TrimSpace(s) == "":
		d.addFault(n, field, "is empty", "leave the key out")
	}
	return s
}

func (d *reader) readInteger(n ast.Node, field string, low int) int {
	i, ok := n.(*ast.IntegerNode)
	if !ok {
		hint := ""
		if s, text := n.(*ast.StringNode); text && decimal.MatchString(s.Value) {
			hint = "write it without quotes"
		}
		d.addFault(n, field, "is "+nodeName(n)+", want a whole number", hint)
		return 0
	}
	v, err := strconv.Atoi(i.GetToken().Value)
	if err != nil || v < low || v > maxInteger || !isPlainNumber(i) {
		d.addFault(n, field, fmt.Sprintf("is %s, want a whole number from %d to %d", i.GetToken().Value, low, maxInteger), "write one in this range, without a leading 0")
		return 0
	}
	return v
}

var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// exponent matches a number that YAML 1.1 treats as text.
var exponent = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+\.?[0-9]*)[eE][-+]?[0-9]+$`)

// isPlainNumber reports whether an integer is written so that all programs read it alike: 010 is
// eight to some and ten to others, and 1_0 is text to some.
func isPlainNumber(n *ast.IntegerNode) bool { return decimal.MatchString(n.GetToken().Value) }

const maxInteger = 1_000_000

// MaxTime limits times in rule files to one year; a longer time is most likely a mistake.
const MaxTime = 366 * 24 * time.Hour

const durationHint = "write a duration such as 90s, 15m, 24h or 7d"

func (d *reader) readDuration(n ast.Node, field string) time.Duration {
	if i, ok := n.(*ast.IntegerNode); ok {
		d.addFault(n, field, fmt.Sprintf("%v has no unit", i.Value), durationHint)
		return 0
	}
	s, ok := d.readText(n, field)
	if !ok {
		return 0
	}
	t, err := ParseDuration(s)
	if err != nil || t < time.Millisecond || t > MaxTime {
		d.addFault(n, field, display.Quoted(s)+" is not a time between 1ms and one year", durationHint)
		return 0
	}
	return t
}

// notePlace records the position of a key's value.
func (d *reader) notePlace(field string, n ast.Node) {
	if d.places == nil {
		return
	}
	l, c := placeOf(n)
	f := fieldOrigin{line: l, col: c}
	switch t := n.(type) {
	case *ast.StringNode:
		f.text = t.Value
	case *ast.LiteralNode:
		f.text = t.Value.Value
	}
	d.places[field] = f
}
