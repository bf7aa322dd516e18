package format

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"github.com/askance-dev/askance/permission"
)

// dump writes out all that a policy says; two policies that say the same have
// the same dump. What is not exported is where things stand in the file.
func dump(p permission.Policy) []byte {
	var b bytes.Buffer
	write(&b, reflect.ValueOf(p))
	return b.Bytes()
}

func write(b *bytes.Buffer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		write(b, v.Elem())
	case reflect.Struct:
		if s, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
			b.WriteString(s.String())
			return
		}
		b.WriteByte('{')
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				b.WriteString(v.Type().Field(i).Name + ":")
				write(b, v.Field(i))
				b.WriteByte(' ')
			}
		}
		b.WriteByte('}')
	case reflect.Slice, reflect.Array:
		b.WriteByte('[')
		for i := range v.Len() {
			write(b, v.Index(i))
			b.WriteByte(' ')
		}
		b.WriteByte(']')
	case reflect.Map:
		var members []string
		for _, key := range v.MapKeys() {
			var m bytes.Buffer
			write(&m, key)
			m.WriteByte('=')
			write(&m, v.MapIndex(key))
			members = append(members, m.String())
		}
		slices.Sort(members)
		fmt.Fprintf(b, "%q", members)
	default:
		fmt.Fprintf(b, "%#v", v.Interface())
	}
}
