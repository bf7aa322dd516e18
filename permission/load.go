package permission

import (
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/rulefile"
)

// MaxFileBytes is the longest accepted rule file.
const MaxFileBytes = rulefile.MaxBytes

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
	return mergeFiles(parsed, &found), found
}

func parseFile(f File, found *problems) (filePolicy, bool) {
	doc, faults := rulefile.Read(f.Name, f.Data)
	for _, x := range faults {
		p := Problem{File: f.Name, Line: x.Line, Col: x.Col, Rule: x.Rule, Field: x.Field, Msg: x.Msg, Hint: x.Hint}
		if x.UnknownKey {
			p.Kind = ProblemKey
		}
		found.add(p)
	}
	if doc == nil {
		return filePolicy{}, false
	}
	return policyOf(doc, f.Layer), true
}

// EditorSchema is the JSON Schema of rule files (draft 7), with which editors
// complete and check them while they are written. It is made from the types
// that rule files are read into. It accepts every file that Parse accepts, and
// some more: it does not know tools, nor what one key means for another.
func EditorSchema() []byte { return rulefile.EditorSchema() }
