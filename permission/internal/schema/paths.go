package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// PathTexts are the texts of an input at the places that the schema calls paths,
// sorted, each once. An input that does not fit the schema has none.
func (s *Schema) PathTexts(input []byte, limits ...strictjson.Option) []string {
	if s == nil || len(s.paths) == 0 {
		return nil
	}
	in, err := s.Decode(input, limits...)
	if err != nil {
		return nil
	}
	var out []string
	s.collectPaths(s.Root, in, &out)
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *Schema) collectPaths(t *Type, v any, out *[]string) {
	if t == nil {
		return
	}
	switch v := v.(type) {
	case string:
		if s.paths[t] {
			*out = append(*out, v)
		}
	case []any:
		for _, item := range v {
			s.collectPaths(t.Elem, item, out)
		}
	case map[string]any:
		for name, item := range v {
			if sub := t.Fields[name]; sub != nil {
				s.collectPaths(sub, item, out)
			} else {
				s.collectPaths(t.Elem, item, out)
			}
		}
	}
}

// pathFormat is the format of a text that is the path of a file.
const pathFormat = "path"

// pathNodes finds the nodes that the schema's text calls paths.
func pathNodes(root *Type, raw []byte) map[*Type]bool {
	doc, err := strictjson.Object(raw, strictjson.MaxBytes(MaxBytes))
	if err != nil {
		return nil // it has been compiled: this cannot be
	}
	found, seen := map[*Type]bool{}, map[*Type]bool{}
	var walk func(*Type)
	walk = func(t *Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		if node, ok := NodeAt(doc, t.Location).(map[string]any); ok && t.Kind == KindString && node["format"] == pathFormat {
			found[t] = true
		}
		walk(t.Elem)
		for _, f := range t.Fields {
			walk(f)
		}
	}
	walk(root)
	return found
}

// NodeAt is what a location of the compiled schema points at in its document.
func NodeAt(doc any, location string) any {
	_, pointer, ok := strings.Cut(location, "#")
	if !ok {
		return nil
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := doc.(type) {
		case map[string]any:
			doc = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}
