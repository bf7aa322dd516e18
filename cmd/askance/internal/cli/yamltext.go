package cli

import (
	"bytes"
	"encoding/json"
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
	d := json.NewDecoder(bytes.NewReader(document)) //nolint:forbidigo // our own output, token by token
	d.UseNumber()
	var b strings.Builder
	if err := writeYAML(&b, d, 0, false); err != nil {
		return "", fmt.Errorf("encode the output: %w", err)
	}
	return strings.TrimPrefix(b.String(), "\n"), nil
}

// writeYAML writes the next value of d. A collection starts on a new line, or after
// the dash of a list.
func writeYAML(b *strings.Builder, d *json.Decoder, depth int, afterDash bool) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	opening, isCollection := token.(json.Delim)
	if !isCollection {
		b.WriteString(yamlScalar(token) + "\n")
		return nil
	}
	if !d.More() {
		b.WriteString(map[json.Delim]string{'{': "{}\n", '[': "[]\n"}[opening])
		_, err := d.Token()
		return err
	}
	indent := strings.Repeat("  ", depth)
	for first := true; d.More(); first = false {
		switch {
		case first && afterDash:
		case first && depth > 0:
			b.WriteString("\n" + indent)
		default:
			b.WriteString(indent)
		}
		if opening == '[' {
			b.WriteString("- ")
			if err := writeYAML(b, d, depth+1, true); err != nil {
				return err
			}
			continue
		}
		name, err := d.Token()
		if err != nil {
			return err
		}
		b.WriteString(yamlScalar(name) + ":")
		var value strings.Builder
		if err := writeYAML(&value, d, depth+1, false); err != nil {
			return err
		}
		if !strings.HasPrefix(value.String(), "\n") {
			b.WriteString(" ")
		}
		b.WriteString(value.String())
	}
	_, err = d.Token()
	return err
}

func yamlScalar(token json.Token) string {
	switch v := token.(type) {
	case nil:
		return "null"
	case string:
		if plainYAML.MatchString(v) && !slices.Contains(yamlWords, strings.ToLower(v)) {
			return v
		}
		quoted, _ := strictjson.AppendString(nil, v) // it came from a decoder
		return string(quoted)
	default:
		return fmt.Sprint(v)
	}
}
