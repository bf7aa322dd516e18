package permission_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

const filesSchema = `{"type": "object", "$defs": {"file": {"type": "string", "format": "path"}}, "properties": {
	"path": {"$ref": "#/$defs/file"}, "note": {"type": "string"},
	"files": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string", "format": "path"}}}}}}`

// tree returns a folder with links into and out of work.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"work/sub", "secret/deep"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"work/out": "../secret/deep", "work/in": "sub", "work/abs": dir + "/secret", "work/loop": "loop", "work/new": "../secret/new.txt", "alias": "work",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestResolve(t *testing.T) {
	dir := tree(t)
	s := schema(t, filesSchema)
	b := compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", Schema: s}}},
		rule("inside", message.BehaviorAllow, `path.within(ctx.resolved[args.path], ctx.working_dirs)`))
	for _, c := range []struct {
		path, want string // below dir; "" if it cannot be resolved
		behavior   message.Behavior
	}{
		{"sub/x", "work/sub/x", message.BehaviorAllow},
		{"in/x", "work/sub/x", message.BehaviorAllow},
		{"./in/../x", "work/x", message.BehaviorAllow},
		{"out/x", "secret/deep/x", message.BehaviorAsk},
		{"out/../x", "secret/x", message.BehaviorAsk}, // by its text the path would be work/x
		{"abs", "secret", message.BehaviorAsk},
		{"new", "secret/new.txt", message.BehaviorAsk}, // writing creates the link's target
		{"../secret", "secret", message.BehaviorAsk},
		{"../alias/sub", "work/sub", message.BehaviorAllow},
		{"none/there", "work/none/there", message.BehaviorAllow},
		{"none/../x", "", message.BehaviorAsk},
		{"loop", "", message.BehaviorAsk},
		{"~/x", "", message.BehaviorAsk},
		{`a\b`, "", message.BehaviorAsk},
		{dir + "/work/out", "secret/deep", message.BehaviorAsk},
		{dir + "/work/sub", "work/sub", message.BehaviorAllow},
	} {
		req := permission.Request{Tool: "t", Input: []byte(`{"path": ` + quote(t, c.path) + `}`), Mode: permission.ModeDefault,
			Cwd: dir + "/alias", WorkingDirs: []string{dir + "/alias"}}
		req.Resolve(s)
		want := map[string]string{}
		if c.want != "" {
			want[c.path] = filepath.Join(dir, c.want)
		}
		if diff := cmp.Diff(want, req.Resolved); diff != "" {
			t.Errorf("%s:\n%s", c.path, diff)
		}
		if !slices.Equal(req.WorkingDirs, []string{dir + "/alias", dir + "/work"}) {
			t.Errorf("%s: working dirs %q", c.path, req.WorkingDirs)
		}
		if d := b.Decide(t.Context(), req); d.Behavior != c.behavior {
			t.Errorf("%s: %s by %s, %v", c.path, d.Behavior, d.Step, d.Errors)
		}
	}
}

func quote(t *testing.T, s string) string {
	t.Helper()
	b, err := strictjson.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A rule that uses an unresolved path fails closed.
func TestNotResolvedFailsClosed(t *testing.T) {
	b := compile(t, permission.Options{Tools: []permission.Tool{{Name: "t", Schema: schema(t, filesSchema)}}},
		rule("inside", message.BehaviorAllow, `path.within(ctx.resolved[args.path], "/")`))
	for _, mode := range allModes {
		if d := decide(b, mode, `{"path": "/x"}`); d.Behavior == message.BehaviorAllow || (mode != permission.ModeExplore && len(d.Errors) == 0) {
			t.Errorf("%s: %s, %v", mode, d.Behavior, d.Errors)
		}
	}
}

func TestSchemaPaths(t *testing.T) {
	s := schema(t, filesSchema)
	got := s.Paths([]byte(`{"path": "b", "note": "no", "files": [{"name": "a"}, {"name": "b"}, {}]}`))
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("Paths = %q", got)
	}
	for _, in := range []string{`{"path": 1}`, `[]`, ``} {
		if got := s.Paths([]byte(in)); got != nil {
			t.Errorf("Paths(%s) = %q", in, got)
		}
	}
	if got := (*permission.Schema)(nil).Paths([]byte(`{"path": "a"}`)); got != nil {
		t.Errorf("Paths without a schema = %q", got)
	}
}
