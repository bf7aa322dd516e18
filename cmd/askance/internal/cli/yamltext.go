package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// plainYAML is text that is not a number, date or symbol of YAML and needs no quotes.
var plainYAML = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./@+-]*( [A-Za-z0-9_./@+-]+)*$`)

var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// yamlText writes a JSON document as YAML: members in the same order, numbers with the
// same digits. A quoted text is a JSON string, so control characters stay escaped.
func yamlText(document []byte) (string, error) {
	var b strings.Builder
	if err := writeYAML(&b, document, "", true); err != nil {
		return "", fmt.Errorf("encode the output: %w", err)
	}
	return b.String(), nil
}

// writeYAML writes a value after a name or, if inline is set, after a dash or at the
// beginning. Only there its first member stands on the same line.
func writeYAML(b *strings.Builder, value []byte, indent string, inline bool) (err error) {
	var members []strictjson.Member
	kind := strictjson.KindOf(value)
	switch kind {
	case "object":
		members, err = strictjson.Members(value)
	case "array":
		members, err = strictjson.Items(value)
	}
	if err != nil {
		return err
	}
	if len(members) == 0 {
		text := string(value)
		if word, err := strictjson.Text(value); err == nil {
			text = yamlWord(word)
		}
		if !inline {
			text = " " + text
		}
		b.WriteString(text + "\n")
		return nil
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
			b.WriteString(yamlWord(m.Name) + ":")
		}
		if err := writeYAML(b, m.Value, indent+"  ", kind == "array"); err != nil {
			return err
		}
	}
	return nil
}

func yamlWord(text string) string {
	if plainYAML.MatchString(text) && !slices.Contains(yamlWords, strings.ToLower(text)) {
		return text
	}
	quoted, _ := strictjson.AppendString(nil, text) // it came from a decoder
	return string(quoted)
}
