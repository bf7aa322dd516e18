package permission

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission/internal/rulefile"
)

// history stores versions in a folder. A file's name has the time of its version and the hash of
// its bytes, so engines that share the folder never write different bytes under one name, and
// damage is noticed.
type history struct {
	dir    string
	report func(error)
}

const historyTime = "20060102T150405.000000000Z"

var historyName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{9}Z-[0-9a-f]{64}\.json$`)

// storedVersion is the content of a file.
type storedVersion struct {
	V int `json:"v"`
	api.PolicyVersion
	Files []storedFile `json:"files"`
}

type storedFile struct {
	Name  string `json:"name"`
	Layer Layer  `json:"layer,omitzero"`
	Text  string `json:"text"`
}

// KeepHistory also stores the versions in a folder, and adds those that earlier processes stored
// there. They are for people: no decision reads them. Read and write errors are reported and have
// no other effect. Call it before Watch.
func (l *Live) KeepHistory(ctx context.Context, dir string, report func(error)) {
	_ = l.files.Reload(ctx, func(context.Context) error { // no load at the same time
		l.history = &history{dir, report}
		earlier := l.history.read()
		l.mu.Lock()
		now := l.versions
		l.versions = nil
		for _, v := range slices.Concat(earlier, now) {
			l.keepVersion(v)
		}
		l.mu.Unlock()
		if len(now) > 0 {
			l.history.write(l.versions[len(l.versions)-1])
		}
		return l.Err()
	})
}

// read returns the versions in the folder, oldest first, within the limits.
func (h *history) read() []version {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			h.report(fmt.Errorf("read the history of the policy: %w", err))
		}
		return nil
	}
	var out []version
	var fault error
	size, faults := 0, 0
	for _, e := range slices.Backward(entries) {
		if e.Name()[0] == '.' { // being written
			continue
		}
		v, n, err := h.readVersion(e.Name())
		if err != nil {
			fault, faults = err, faults+1
			continue
		}
		if size += n; len(out) == maxVersions || size > maxVersionBytes {
			break
		}
		out = append(out, v)
	}
	if faults > 0 {
		h.report(fmt.Errorf("ignored %d files in %s, such as %w", faults, h.dir, fault))
	}
	slices.Reverse(out)
	return out
}

func (h *history) readVersion(name string) (version, int, error) {
	if !historyName.MatchString(name) {
		return version{}, 0, errors.New(name + ", which is not a version of a policy")
	}
	data, _, err := plainfile.Read(filepath.Join(h.dir, name), maxVersionBytes)
	if err != nil {
		return version{}, 0, err
	}
	var s storedVersion
	if err := strictjson.Unmarshal(data, &s, strictjson.MaxBytes(maxVersionBytes)); err != nil {
		return version{}, 0, fmt.Errorf("%s: %w", name, err)
	}
	if s.V != 1 || nameOf(s.PolicyVersion, data) != name {
		return version{}, 0, errors.New(name + ", which is damaged")
	}
	v := version{PolicyVersion: s.PolicyVersion}
	for _, f := range s.Files {
		v.files = append(v.files, File{Name: f.Name, Layer: f.Layer, Data: []byte(f.Text)})
	}
	return v, len(data), nil
}

func nameOf(v api.PolicyVersion, data []byte) string {
	sum := sha256.Sum256(data)
	return v.Loaded.Format(historyTime) + "-" + hex.EncodeToString(sum[:]) + ".json"
}

// write stores a version, replacing those of the same time, and removes the oldest files beyond the
// limits.
func (h *history) write(v version) {
	s := storedVersion{V: 1, PolicyVersion: v.PolicyVersion, Files: make([]storedFile, len(v.files))}
	for i, f := range v.files {
		s.Files[i] = storedFile{f.Name, f.Layer, string(f.Data)}
	}
	data, err := strictjson.Marshal(s)
	if err == nil && len(data) > maxVersionBytes {
		err = errors.New("it is larger than 4 MiB")
	}
	name := nameOf(v.PolicyVersion, data)
	if err == nil {
		err = plainfile.MkdirAll(h.dir)
	}
	if err == nil {
		err = plainfile.Replace(filepath.Join(h.dir, name), data)
	}
	if err == nil {
		err = h.prune(name, len(data))
	}
	if err != nil {
		h.report(fmt.Errorf("store a version of the policy: %w", err))
	}
}

// prune removes the files that the newly written one replaces, those beyond the limits, and
// unfinished files of killed processes.
func (h *history) prune(written string, size int) error {
	var now time.Time
	if info, err := os.Stat(filepath.Join(h.dir, written)); err == nil { // otherwise another engine removed it
		now = info.ModTime()
	}
	entries, err := os.ReadDir(h.dir)
	kept := 1
	for _, e := range slices.Backward(entries) {
		name := e.Name()
		if isLeft(e, now) {
			err = errors.Join(err, removeFile(h.dir, name))
		}
		if name == written || !historyName.MatchString(name) {
			continue
		}
		if name[:len(historyTime)] != written[:len(historyTime)] {
			if info, err := e.Info(); err == nil {
				size += int(info.Size())
			}
			if kept++; kept <= maxVersions && size <= maxVersionBytes {
				continue
			}
		}
		err = errors.Join(err, removeFile(h.dir, name))
	}
	return err
}

// isLeft reports whether the file was left by a process killed while writing it; a running process
// finishes within a minute.
func isLeft(e fs.DirEntry, now time.Time) bool {
	info, err := e.Info()
	return err == nil && strings.HasPrefix(e.Name(), plainfile.Unfinished) && now.Sub(info.ModTime()) > time.Minute
}

func removeFile(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) { // another engine may have removed it
		return err
	}
	return nil
}

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
