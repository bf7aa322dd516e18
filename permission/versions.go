package permission

import (
	"cmp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission/internal/rulefile"
)

// Limits on the versions that a Live keeps.
const (
	maxVersions     = 20
	maxVersionBytes = 4 << 20
)

type version struct {
	api.PolicyVersion
	files []File
}

func (v *version) size() int {
	n := 0
	for _, f := range v.files {
		n += len(f.Data)
	}
	return n
}

// keepVersion adds a policy that came into force, and drops the oldest beyond the limits. The
// caller holds mu.
func (l *Live) keepVersion(v version) {
	if n := len(l.versions); n > 0 && l.versions[n-1].Bundle == v.Bundle { // comments changed, or a restart
		v.Loaded = l.versions[n-1].Loaded
		l.versions = l.versions[:n-1]
	}
	l.versions = append(l.versions, v)
	size := 0
	for i, v := range slices.Backward(l.versions) {
		size += v.size()
		if i+1 < len(l.versions) && (size > maxVersionBytes || len(l.versions)-i > maxVersions) {
			l.versions = slices.Clone(l.versions[i+1:])
			return
		}
	}
}

// listVersions returns the policies that are and were in force, newest first: at most 20, and fewer if
// their files exceed 4 MiB. Without KeepHistory they start with the process. The caller holds mu.
func (l *Live) listVersions() []api.PolicyVersion {
	if l.inForce == nil {
		return []api.PolicyVersion{} // the stored ones were in force in an earlier process
	}
	out := make([]api.PolicyVersion, 0, len(l.versions))
	for _, v := range slices.Backward(l.versions) {
		out = append(out, v.PolicyVersion)
	}
	return out
}

// Text returns the text of the newest version with a hash, or of the policy in force for ""; false
// if there is none.
func (l *Live) Text(bundle string) (api.PolicyTextReply, bool) {
	l.mu.Lock()
	at := -1
	for i, v := range l.versions {
		if l.inForce != nil && (bundle == "" || v.Bundle == bundle) {
			at = i
		}
	}
	if at < 0 {
		l.mu.Unlock()
		return api.PolicyTextReply{}, false
	}
	v := l.versions[at]
	l.mu.Unlock()
	out := api.PolicyTextReply{Bundle: v.Bundle, Loaded: v.Loaded, Files: []api.PolicyFileText{}, Rules: []api.PolicyRuleText{}}
	for i, f := range describeFiles(v.files) {
		out.Files = append(out.Files, api.PolicyFileText{PolicyFile: f, Text: string(v.files[i].Data)})
		out.Rules = append(out.Rules, ruleTexts(v.files[i])...)
	}
	return out, true
}

// ruleTexts finds the rules in a file that was loaded.
func ruleTexts(f File) []api.PolicyRuleText {
	doc, _ := rulefile.Read(f.Name, f.Data) // cannot fail: it has been read before
	if doc == nil {
		return nil
	}
	lines := strings.Split(string(f.Data), "\n")
	out := make([]api.PolicyRuleText, 0, len(doc.Rules))
	for i := range doc.Rules {
		r := &doc.Rules[i]
		line, _ := r.At.Start("")
		out = append(out, api.PolicyRuleText{Rule: r.Name, Behavior: r.Behavior, Tools: slices.Concat([]string{}, r.Tool, r.ToolName), File: f.Name, Line: line})
	}
	slices.SortStableFunc(out, func(a, b api.PolicyRuleText) int { return cmp.Compare(a.Line, b.Line) })
	for i := range out {
		next := len(lines) + 1
		if i+1 < len(out) {
			next = max(out[i].Line+1, out[i+1].Line)
		}
		out[i].End = endOfRule(lines, out[i].Line, next)
		out[i].Text = cutText(lines, out[i].Line, out[i].End)
	}
	return out
}

// endOfRule returns the last line of a rule that starts at line and ends before next.
func endOfRule(lines []string, line, next int) int {
	if line < 1 || line > len(lines) {
		return line
	}
	indent := indentOf(lines[line-1])
	end := line
	for at := line + 1; at < next && at <= len(lines); at++ {
		text := strings.TrimSpace(lines[at-1])
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		if indentOf(lines[at-1]) <= indent && text[0] != '}' && text[0] != ']' {
			break // a key of the file
		}
		end = at
	}
	return end
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// cutText returns lines without their common indent.
func cutText(lines []string, from, to int) string {
	if from < 1 || to > len(lines) || from > to {
		return ""
	}
	cut := slices.Clone(lines[from-1 : to])
	common := indentOf(cut[0])
	for i, l := range cut {
		cut[i] = strings.TrimSuffix(l[min(common, indentOf(l)):], "\r")
	}
	return strings.Join(cut, "\n")
}

func describeFiles(files []File) []api.PolicyFile {
	out := make([]api.PolicyFile, len(files))
	for i, f := range files {
		out[i] = api.PolicyFile{Name: f.Name, Layer: string(cmp.Or(f.Layer, LayerProject)), Digest: message.Digest(f.Data)}
	}
	return out
}
