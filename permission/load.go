package permission

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// MaxFileBytes is the longest accepted rule file.
const MaxFileBytes = 1 << 20

// File is a rule file's content.
type File struct {
	Name string // for messages, e.g. its path
	Data []byte
	// Layer says whose policy it is; the zero Layer is LayerProject.
	Layer Layer
}

// Parse reads rule files into one policy. Keys are strict, duplicate keys,
// anchors and tags are refused; every fault is reported with its place. The
// rules' expressions are not looked at: see Compile, and Load for both.
func Parse(files ...File) (Policy, error) {
	policy, found := parseFiles(files)
	if err := found.err(); err != nil {
		return Policy{}, err
	}
	return policy, nil
}

// parseFiles merges what it can read. Each file's defaults hold for its own
// rules; the mode and the expiry of approval requests without a rule are the bundle's.
func parseFiles(files []File) (Policy, problems) {
	var found problems
	if len(files) == 0 {
		found.add(Problem{Msg: "there are no rule files", Hint: "a policy without rules is a file with an empty list of rules"})
	}
	parsed := make([]filePolicy, 0, len(files))
	for _, f := range files {
		if f.Layer == "" {
			f.Layer = LayerProject
		}
		if f.Layer.rank() < 0 {
			found.add(Problem{File: f.Name, Msg: "is of the unknown layer " + display.Quoted(string(f.Layer)), Hint: "the layers are managed, project, user and run"})
			continue
		}
		if p, ok := parseFile(f, &found); ok {
			parsed = append(parsed, p)
		}
	}
	return merge(parsed, &found), found
}

func parseFile(f File, found *problems) (filePolicy, bool) {
	// Some editors begin a file with a byte order mark, and the YAML library
	// miscounts lines that end in CR LF.
	f.Data = bytes.ReplaceAll(bytes.TrimPrefix(f.Data, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
	body, ok := parseYAML(f, found)
	if !ok {
		return filePolicy{}, false
	}
	d := &fileReader{file: newSourceFile(f), layer: f.Layer, found: found}
	return d.policy(body), true
}

// parseYAML gives the one document of a file.
func parseYAML(f File, found *problems) (body ast.Node, ok bool) {
	fail := func(line, col int, msg, hint string) bool {
		found.add(Problem{File: f.Name, Line: line, Col: col, Msg: msg, Hint: hint})
		return false
	}
	// The YAML library has had panics on odd input; a rule file must not be
	// able to take the engine down.
	defer func() {
		if r := recover(); r != nil {
			body, ok = nil, fail(0, 0, fmt.Sprintf("cannot be read as YAML: %v", r), "")
		}
	}()
	switch {
	case len(f.Data) > MaxFileBytes:
		return nil, fail(0, 0, "is longer than 1 MiB", "split it")
	case !utf8.Valid(f.Data):
		line, col, hint := notUTF8(f.Data)
		return nil, fail(line, col, "is not UTF-8", hint)
	}
	if at := bytes.IndexFunc(f.Data, display.IsMisleading); at >= 0 {
		c, _ := utf8.DecodeRune(f.Data[at:])
		line, col := position(f.Data, at)
		if c == '\r' {
			return nil, fail(line, col, "contains a carriage return, behind which a terminal hides text", "end lines with LF or CR LF")
		}
		return nil, fail(line, col, fmt.Sprintf("contains the character %U, with which a text does not look like what it is", c),
			fmt.Sprintf(`write it as "\u%04X", in double quotes`, c))
	}
	tokens := lexer.Tokenize(string(f.Data))
	if i := slices.IndexFunc(tokens, func(t *token.Token) bool { return t.Type == token.DirectiveType }); i >= 0 {
		line := tokens[i].Position.Line
		return nil, fail(line, 1, "contains a YAML directive", "leave out the line "+display.Quoted(strings.TrimSpace(lineOf(f.Data, line))))
	}
	if t, msg, hint := badShape(tokens); t != nil {
		return nil, fail(t.Position.Line, t.Position.Column, msg, hint)
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	var ye yaml.Error
	switch {
	case errors.As(err, &ye) && ye.GetToken() != nil && ye.GetToken().Position != nil:
		pos := ye.GetToken().Position
		return nil, fail(pos.Line, pos.Column, ye.GetMessage(), hint.Line(ye.GetMessage(), lineOf(f.Data, pos.Line)))
	case err != nil:
		return nil, fail(0, 0, err.Error(), "")
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		return nil, fail(1, 1, "the file is empty", "it needs version, name and rules")
	case len(file.Docs) > 1:
		return nil, fail(secondDocument(file), 1, "contains more than one document", "use one file for each; a line --- begins another one")
	}
	return file.Docs[0].Body, true
}

// lineOf is the text of a line, counted from 1.
func lineOf(data []byte, line int) string {
	lines := bytes.Split(data, []byte("\n"))
	if line < 1 || line > len(lines) {
		return ""
	}
	return string(lines[line-1])
}

// secondDocument is the line on which the second document of a file begins.
func secondDocument(file *ast.File) int {
	if start := file.Docs[1].Start; start != nil && start.Position != nil {
		return start.Position.Line
	}
	return 1
}
