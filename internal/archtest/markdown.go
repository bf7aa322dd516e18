package archtest

import (
	"errors"
	"fmt"
	"strings"
)

// Markdown renders the table for docs/imports.md.
func (t Table) Markdown() string {
	var b strings.Builder
	b.WriteString("| package | may import | third party | why |\n|---|---|---|---|\n")
	for _, r := range t.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name(), r.own(), r.libraries(), r.Why)
	}
	fmt.Fprintf(&b, "\nEvery package except the examples may use %s.\n", codes(t.Shared, " and "))
	fmt.Fprintf(&b, "Tests may use %s; no other code may.\n", codes(t.TestLibraries, ", "))
	b.WriteString(t.forbidden())
	return b.String()
}

// forbidden lists what folders must never import, one line for all folders with the same list.
func (t Table) forbidden() string {
	folders, order := map[string][]string{}, []string(nil)
	for _, r := range t.Rows {
		if len(r.Never) == 0 {
			continue
		}
		list := codes(r.Never, ", ")
		if folders[list] == nil {
			order = append(order, list)
		}
		folders[list] = append(folders[list], r.name())
	}
	var b strings.Builder
	for _, list := range order {
		fmt.Fprintf(&b, "\nNever imported by %s: %s.\n", strings.Join(folders[list], ", "), list)
	}
	return b.String()
}

// summary describes what a row allows, in one line of plain text.
func (r Row) summary() string {
	text := fmt.Sprintf("%s may import %s; third party: %s", r.Folder, r.own(), r.libraries())
	if len(r.Never) > 0 {
		text += "; never " + strings.Join(r.Never, ", ")
	}
	return strings.ReplaceAll(text, "`", "")
}

func (r Row) name() string {
	switch r.Folder {
	case ".":
		return "the root"
	case anyTest:
		return "`…test`"
	}
	return "`" + r.Folder + "`"
}

func (r Row) own() string {
	switch {
	case r.Outside:
		return "every public package, never `internal/`"
	case r.Public:
		return "every public package"
	case len(r.Own) == 0:
		return "nothing"
	}
	return codes(r.Own, ", ")
}

func (r Row) libraries() string {
	switch {
	case r.Proof:
		return "test libraries, and libraries that another row names"
	case len(r.Libraries) == 0:
		return "none"
	}
	short := make([]string, len(r.Libraries))
	for i, l := range r.Libraries {
		short[i] = strings.TrimPrefix(l, "github.com/")
	}
	return codes(short, ", ")
}

func codes(words []string, between string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "`" + w + "`"
	}
	return strings.Join(quoted, between)
}

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
