package textfile

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
)

// WriteYAML writes a JSON value in block style, with members in the same order and numbers
// with the same digits. It follows a name or, with inline, a dash or the beginning of the text: only
// there its first member stands on the same line. With flow, a list of scalars is on one line.
// After an error the text is incomplete.
func WriteYAML(b *bytes.Buffer, value []byte, indent string, inline, flow bool) error {
	kind := strictjson.KindOf(value)
	var members []strictjson.Member
	var err error
	switch kind {
	case "object":
		members, err = strictjson.Members(value)
	case "array":
		members, err = strictjson.Items(value)
	}
	if err != nil {
		return err
	}
	if len(members) == 0 || flow && kind == "array" && !slices.ContainsFunc(members, isNested) {
		if !inline {
			b.WriteByte(' ')
		}
		line, err := yamlLine(value, members)
		b.WriteString(line + "\n")
		return err
	}
	for i, m := range members {
		switch {
		case i > 0:
			b.WriteString(indent)
		case !inline:
			b.WriteString("\n" + indent)
		}
		if kind == "array" {
			b.WriteString("- ")
		} else {
			b.WriteString(YAMLText(m.Name) + ":")
		}
		if err := WriteYAML(b, m.Value, indent+"  ", kind == "array", flow); err != nil {
			return err
		}
	}
	return nil
}

func isNested(m strictjson.Member) bool {
	kind := strictjson.KindOf(m.Value)
	return kind == "object" || kind == "array"
}

// yamlLine returns a scalar, a list of scalars or an empty object on one line.
func yamlLine(value []byte, items []strictjson.Member) (string, error) {
	switch strictjson.KindOf(value) {
	case "object":
		return "{}", nil
	case "array":
		texts := make([]string, len(items))
		for i, m := range items {
			var err error
			if texts[i], err = yamlLine(m.Value, nil); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(texts, ", ") + "]", nil
	case "string":
		text, err := strictjson.Text(value)
		return YAMLText(text), err
	}
	return string(value), strictjson.Check(value)
}

var (
	// plainYAML needs no quotes, unless it is one of yamlWords.
	plainYAML = regexp.MustCompile(`^[A-Za-z_$/][A-Za-z0-9_$./@+-]*( [A-Za-z0-9_$./@+-]+)*$`)
	yamlWords = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// YAMLText returns a text as YAML. A quoted one is a JSON string, in which nothing is invisible or
// turns text around: a person reads it.
func YAMLText(text string) string {
	if plainYAML.MatchString(text) && !yamlWords.MatchString(text) {
		return text
	}
	quoted, err := strictjson.AppendString(nil, text)
	if err != nil {
		return `""` // cannot be: the text came from a decoder
	}
	var out strings.Builder
	for _, r := range string(quoted) {
		switch {
		case !reveal.Invisible(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
