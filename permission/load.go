package permission

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/askance-dev/askance/permission/internal/rulefile"
)

// MaxFileBytes is the largest accepted size of a rule file.
const MaxFileBytes = rulefile.MaxBytes

// File is a rule file's content.
type File struct {
	Name string // for messages, e.g. its path
	Data []byte
	// Layer says whose policy it is; the zero Layer is LayerProject.
	Layer Layer
}

// Parse reads rule files into one policy. Keys are strict; duplicate keys, anchors and tags are
// refused. Every fault is reported with its position. Expressions are not checked: see Compile, and
// Load for both.
func Parse(files ...File) (Policy, error) {
	policy, found := parseFiles(files)
	if err := found.err(); err != nil {
		return Policy{}, err
	}
	return policy, nil
}

// parseFiles merges what it can read. Each file's defaults apply to its own rules; the mode, and
// the expiry of approval requests without a rule, apply to the bundle.
func parseFiles(files []File) (Policy, problems) {
	var found problems
	if len(files) == 0 {
		found.add(Problem{Msg: "there are no rule files", Hint: "a policy without rules is a file with an empty list of rules"})
	}
	parsed := make([]filePolicy, 0, len(files))
	for _, f := range files {
		f.Layer = cmp.Or(f.Layer, LayerProject)
		if f.Layer.rank() < 0 {
			found.add(Problem{File: f.Name, Msg: "belongs to the unknown layer " + display.Quoted(string(f.Layer)), Hint: "the layers are managed, project, user and run"})
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

// EditorSchema is the JSON Schema (draft 7) with which editors complete and check rule files. It is
// generated from the types that rule files are decoded into. It accepts every file that Parse
// accepts and some more: it does not know tools or how keys depend on each other.
func EditorSchema() []byte { return rulefile.EditorSchema() }

// ParseDuration parses a duration in a rule file: the format of time.ParseDuration, plus days of 24
// hours, which come first: 7d, 1d12h.
func ParseDuration(text string) (time.Duration, error) { return rulefile.ParseDuration(text) }

// DurationPattern matches positive durations, for JSON Schemas.
const DurationPattern = rulefile.DurationPattern

// FormatDuration formats a duration for people, in a form that ParseDuration accepts.
func FormatDuration(d time.Duration) string { return rulefile.FormatDuration(d) }

// Layer says whose policy a file is. Layers never decide between rules: a deny in any layer denies.
// They say who can disable whose rules: a file can disable rules of higher layers, unless they are
// locked.
type Layer string

// The layers, from the highest to the lowest.
const (
	LayerManaged Layer = "managed" // the organisation's
	LayerProject Layer = "project" // the default
	LayerUser    Layer = "user"
	LayerRun     Layer = "run" // of one run, such as from a command line
)

// Layers lists the layers, highest first.
func Layers() []Layer { return []Layer{LayerManaged, LayerProject, LayerUser, LayerRun} }

// rank is 0 for the highest layer, -1 for an unknown one.
func (l Layer) rank() int {
	return slices.Index(Layers(), cmp.Or(l, LayerProject))
}

// mergeFiles merges several files into one policy. The order of the files does not matter.
func mergeFiles(files []filePolicy, found *problems) Policy {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b filePolicy) int { return cmp.Compare(a.layer.rank(), b.layer.rank()) })
	var out Policy
	gone := map[*Rule]bool{}
	for i := range files {
		f := &files[i]
		adoptSetting(f, "defaults.mode", &out.Mode, f.Mode, found)
		adoptSetting(f, "defaults.shell", &out.Shell, f.Shell, found)
		// The shorter time is safer and does not depend on the order.
		if out.Expiry == 0 || (f.Expiry > 0 && f.Expiry < out.Expiry) {
			out.Expiry = f.Expiry
		}
		out.Vocabulary = append(out.Vocabulary, f.Vocabulary...)
		f.takeOut(files, gone, found)
	}
	for i := range files {
		for k := range files[i].Rules {
			if r := &files[i].Rules[k]; !gone[r] {
				out.Rules = append(out.Rules, *r)
			}
		}
		out.Tests = append(out.Tests, files[i].Tests...)
	}
	return out
}

// takeOut marks the rules that the file disables. all are the files of the policy.
func (f *filePolicy) takeOut(all []filePolicy, gone map[*Rule]bool, found *problems) {
	for i, name := range f.disable {
		at := fmt.Sprintf("disable[%d]", i)
		rules := rulesAbove(f.layer, name, all)
		if len(rules) == 0 {
			f.addFault(found, "disable", at, "there is no rule "+display.Quoted(name)+" in a layer above "+string(f.layer), disableHint(name, all))
		}
		for _, r := range rules {
			if r.Locked {
				f.addFault(found, "disable", at, "rule "+display.Quoted(name)+r.at.Describe()+" is locked", "only its own file can change it")
				continue
			}
			gone[r] = true
		}
	}
}

// disableHint says why no rule above has that name.
func disableHint(name string, files []filePolicy) string {
	var names []string
	for i := range files {
		for k := range files[i].Rules {
			r := &files[i].Rules[k]
			if r.Name == name {
				layer, how := cmp.Or(files[i].layer, LayerProject), ""
				if layer == LayerProject {
					how = "; managed=FILE puts a file above"
				}
				return "the one" + r.at.Describe() + " is of layer " + string(layer) + how
			}
			names = append(names, r.Name)
		}
	}
	return hint.DidYouMean(name, names)
}

// rulesAbove returns the rules of that name in the layers above the given one. There are several if
// a file has replaced a rule of a higher layer.
func rulesAbove(layer Layer, name string, files []filePolicy) []*Rule {
	var out []*Rule
	for i := range files {
		if files[i].layer.rank() >= layer.rank() {
			continue
		}
		for k := range files[i].Rules {
			if r := &files[i].Rules[k]; r.Name == name {
				out = append(out, r)
			}
		}
	}
	return out
}

// adoptSetting takes the file's value unless another file has a different one.
func adoptSetting[T ~string](f *filePolicy, field string, into *T, says T, found *problems) {
	if says != "" && *into != "" && says != *into {
		f.addFault(found, field, field, "is "+string(says)+", another file says "+string(*into), "set it in one file")
	}
	if says != "" {
		*into = says
	}
}

// addFault adds the problem of a field, located at the key at.
func (f *filePolicy) addFault(found *problems, field, at, msg, hint string) {
	line, col := f.at.Start(at)
	found.add(Problem{File: f.at.FileName(), Line: line, Col: col, Field: field, Msg: msg, Hint: hint})
}
