package rulefile

import (
	"reflect"
	"slices"
)

// Key describes one key of rule files, for references.
type Key struct {
	// Path leads to it from the top, as "rules[].approvers.users".
	Path     string
	Type     string // text, true or false, number, duration, list of text, …
	Words    []string
	Required bool
	Doc      string
}

// Keys lists the keys of rule files, in the order in which they are usually
// written.
func Keys() []Key { return structKeys(reflect.TypeFor[File](), "") }

// keyPaths are the paths of all keys of rule files.
func keyPaths() []string {
	keys := Keys()
	out := make([]string, len(keys))
	for i := range keys {
		out[i] = keys[i].Path
	}
	return out
}

func structKeys(t reflect.Type, prefix string) []Key {
	var out []Key
	for _, k := range keysOf(t) {
		field := t.Field(k.index).Type
		key := Key{Path: prefix + k.name, Type: keyType(field), Words: slices.Clone(k.words), Required: k.need != "", Doc: k.doc}
		if t == reflect.TypeFor[Rule]() && (k.name == "name" || k.name == "behavior" || k.name == "tool") {
			key.Required = true // the absence of these is reported when the rule is compiled
		}
		out = append(out, key)
		elem, path := field, key.Path+"."
		for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
			if elem.Kind() == reflect.Slice {
				path = key.Path + "[]."
			}
			elem = elem.Elem()
		}
		if elem.Kind() == reflect.Struct && editorTypes[elem] == nil {
			out = append(out, structKeys(elem, path)...)
		}
	}
	return out
}

// keyType is the type of a key in words.
func keyType(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return keyType(t.Elem())
	}
	switch t {
	case reflect.TypeFor[version]():
		return "1"
	case reflect.TypeFor[terms]():
		return "names with CEL expressions"
	case reflect.TypeFor[instant]():
		return "time"
	case reflect.TypeFor[jsonObject]():
		return "JSON object"
	case durationType:
		return "duration"
	}
	switch t.Kind() {
	case reflect.Slice:
		if elem := keyType(t.Elem()); elem == "text" {
			return "text, or list of text"
		}
		return "list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "number"
	case reflect.Struct:
		return "keys"
	default:
		return "text"
	}
}
