package toolfile

import (
	"fmt"
	"reflect"
	"strings"
)

// value describes the values of a key in one word or list.
func (k key) value() string {
	switch {
	case k.words() != nil:
		return strings.Join(k.words(), ", ")
	case k.field == reflect.TypeFor[duration]():
		return "duration"
	case k.field.Kind() == reflect.Bool:
		return "true or false"
	case k.field.Kind() == reflect.Int:
		return "number"
	case k.field.Kind() == reflect.Map:
		return "JSON Schema"
	case k.field.Kind() == reflect.Slice:
		return "list of text"
	}
	return "text"
}

const referenceHead = `# Reference of tools files

For operators and authors of policies: every key of the file that declares the tools of an engine (` + "`askance serve --tools`" + `). A test generates this page from the code; do not edit it. Begin with the [tutorial](../docs/tutorials/policy.md#2-declare-the-tools); ` + "`askance policy schema tools`" + ` writes a JSON Schema for editors.

A tools file is YAML or JSON, at most 1 MiB. It has ` + "`version: 1`" + ` and a list ` + "`tools`" + `. Unknown keys and keys that are given twice are errors. A duration is written as 90s, 15m, 24h or 7d.

| Key of a tool | Value | Meaning |
|---|---|---|
`

// Reference returns the page that describes the keys.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, k := range keys() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.name, k.value(), strings.ReplaceAll(k.doc, "|", `\|`))
	}
	return b.String()
}
