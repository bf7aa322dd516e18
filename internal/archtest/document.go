package archtest

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBlock is wrapped when a document lacks a marked block.
var ErrBlock = errors.New("no such block")

// Block returns the text between <!-- name:begin --> and <!-- name:end -->.
func Block(document, name string) (string, error) {
	_, inner, _, err := cut(document, name)
	return inner, err
}

// WithBlock returns the document with other text between the marks.
func WithBlock(document, name, text string) (string, error) {
	head, _, tail, err := cut(document, name)
	if err != nil {
		return "", err
	}
	return head + text + tail, nil
}

func cut(document, name string) (head, inner, tail string, err error) {
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	before, rest, ok := strings.Cut(document, begin)
	inner, after, closed := strings.Cut(rest, end)
	if !ok || !closed || strings.Contains(after, begin) {
		return "", "", "", fmt.Errorf("%w: the document needs one line %q and after it one line %q", ErrBlock, strings.TrimSpace(begin), end)
	}
	return before + begin, inner, end + after, nil
}
