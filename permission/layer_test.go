package permission_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// layered returns a file of a layer.
func layered(layer permission.Layer, text string) permission.File {
	return permission.File{Name: string(layer) + ".yaml", Layer: layer, Data: []byte("version: 1\nname: " + string(layer) + "\n" + text)}
}

const managedRules = `rules:
  - {name: no-prod, tool: t, behavior: deny, when: args.env == "prod", locked: true}
  - {name: careful, tool: t, behavior: ask}
`

func TestLayers(t *testing.T) {
	managed := layered(permission.LayerManaged, managedRules)
	user := func(text string) permission.File { return layered(permission.LayerUser, text) }
	for _, tc := range []struct {
		name  string
		files []permission.File
		mode  permission.Mode
		input string
		want  message.Behavior
		rule  string
	}{
		{"an allow rule of a lower layer does not override", []permission.File{managed, user(`rules: [{name: mine, tool: t, behavior: allow}]`)}, "", `{"env": "dev"}`, "ask", "careful"},
		{"a rule that is not locked can be disabled", []permission.File{managed, user("disable: [careful]\n" + `rules: [{name: mine, tool: t, behavior: allow}]`)}, "", `{"env": "dev"}`, "allow", "mine"},
		{"or replaced", []permission.File{managed, user("disable: [careful]\n" + `rules: [{name: careful, tool: t, behavior: deny}]`)}, "", `{"env": "dev"}`, "deny", "careful"},
		{"a replacing rule can be disabled", []permission.File{managed, layered(permission.LayerProject, "disable: [careful]\n"+`rules: [{name: careful, tool: t, behavior: allow}]`), user("disable: [careful]\nrules: []")}, "", `{"env": "dev"}`, "ask", ""},
		{"a locked rule stays", []permission.File{managed, user("disable: [careful]\n" + `rules: [{name: mine, tool: t, behavior: allow}]`)}, "", `{"env": "prod"}`, "deny", "no-prod"},
		{"also in bypass mode", []permission.File{managed}, permission.ModeBypass, `{"env": "prod"}`, "deny", "no-prod"},
		{"a failing locked rule", []permission.File{managed}, permission.ModeBypass, `{}`, "deny", "no-prod"},
		{"a lower layer adds denials", []permission.File{managed, user(`rules: [{name: mine, tool: t, behavior: deny}]`)}, "", `{"env": "dev"}`, "deny", "mine"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 2 { // the order of the files does not matter
				slices.Reverse(tc.files)
				b, err := permission.Load(tc.files, permission.Options{})
				if err != nil {
					t.Fatal(err)
				}
				d := b.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(tc.input), Mode: tc.mode})
				if d.Behavior != tc.want || d.Rule != tc.rule {
					t.Errorf("%s by %q, want %s by %q", d.Behavior, d.Rule, tc.want, tc.rule)
				}
			}
		})
	}
}

func TestDecisionNamesTheLayer(t *testing.T) {
	b, err := permission.Load([]permission.File{layered(permission.LayerManaged, managedRules), {Name: "p", Data: []byte(`{version: 1, name: x, rules: [{name: p, tool: u, behavior: deny}]}`)}}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]permission.Layer{"t": permission.LayerManaged, "u": permission.LayerProject, "v": ""} {
		if d := b.Decide(context.Background(), permission.Request{Tool: tool, Input: []byte(`{"env": "dev"}`)}); d.Layer != want {
			t.Errorf("%s: layer %q, want %q", tool, d.Layer, want)
		}
	}
}

func TestLayersRefused(t *testing.T) {
	managed := layered(permission.LayerManaged, managedRules)
	for _, tc := range []struct {
		name  string
		files []permission.File
		want  []string
	}{
		{"locked", []permission.File{managed, layered(permission.LayerRun, "disable: [careful, no-prod]\nrules: []")},
			[]string{"run.yaml:3:20: disable: rule no-prod (managed.yaml:4) is locked (only its own file can change it)"}},
		{"locked where it was replaced", []permission.File{managed, layered(permission.LayerProject, "disable: [careful]\nrules: [{name: careful, tool: t, behavior: deny, locked: true}]"), layered(permission.LayerUser, "disable: [careful]\nrules: []")},
			[]string{"user.yaml:3:11: disable: rule careful (project.yaml:4) is locked (only its own file can change it)"}},
		{"not above", []permission.File{managed, layered(permission.LayerManaged, "disable: [careful]\nrules: []")},
			[]string{"managed.yaml:3:11: disable: there is no rule careful in a layer above managed (the one (managed.yaml:5) is of layer managed)"}},
		{"of a lower layer", []permission.File{layered(permission.LayerProject, "disable: [mine]\nrules: []"), layered(permission.LayerUser, "rules: [{name: mine, tool: t, behavior: deny}]")},
			[]string{"project.yaml:3:11: disable: there is no rule mine in a layer above project (the one (user.yaml:3) is of layer user)"}},
		{"same name", []permission.File{managed, layered(permission.LayerUser, "rules: [{name: no-prod, tool: t, behavior: allow}]")},
			[]string{"user.yaml:3:16: rule no-prod: name: is used by an earlier rule (managed.yaml:4) (names are unique across all files)"}},
		{"mode", []permission.File{layered(permission.LayerManaged, "defaults: {mode: default}\nrules: []"), layered(permission.LayerUser, "defaults: {mode: bypass}\nrules: []")},
			[]string{"user.yaml:3:18: defaults.mode: is bypass, another file says default (set it in one file)"}},
		{"shell", []permission.File{layered(permission.LayerManaged, "defaults: {shell: sh}\nrules: []"), layered(permission.LayerUser, "defaults: {shell: bash}\nrules: []")},
			[]string{"user.yaml:3:19: defaults.shell: is bash, another file says sh (set it in one file)"}},
		{"term", []permission.File{layered(permission.LayerManaged, "vocabulary: {a: 'true'}\nrules: []"), layered(permission.LayerUser, "vocabulary: {a: 'false'}\nrules: []")},
			[]string{"user.yaml:3:17: vocabulary.a: is defined twice (rename one of them)"}},
		{"unknown layer", []permission.File{layered("boss", "rules: []")},
			[]string{"boss.yaml: belongs to the unknown layer boss (the layers are managed, project, user and run)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 2 {
				slices.Reverse(tc.files)
				_, err := permission.Load(tc.files, permission.Options{})
				var le *permission.LoadError
				if !errors.As(err, &le) || !slices.Equal(texts(le), tc.want) {
					t.Errorf("Load = %v\nwant %s", err, strings.Join(tc.want, "\n"))
				}
			}
		})
	}
}

// With any lower layers, in every mode, what a locked rule denies stays denied, and what it asks
// about is never allowed.
func TestLockedRulesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		input := rapid.SampledFrom([]string{`{"n": 1}`, `{"n": 5}`, `{}`, `[]`}).Draw(t, "input")
		mode := rapid.SampledFrom(allModes).Draw(t, "mode")
		conditions := rapid.SampledFrom([]string{"", ", when: args.n > 3", ", when: args.n < 3", `, when: 'caller.user != "ann"'`})
		draw := func(label string, behaviors ...string) string {
			return "behavior: " + rapid.SampledFrom(behaviors).Draw(t, label) + conditions.Draw(t, label+" when")
		}
		locked := layered(permission.LayerManaged, "rules:\n  - {name: locked, tool: t, locked: true, "+draw("locked", "deny", "ask")+"}\n")
		open := layered(permission.LayerProject, "rules:\n  - {name: open, tool: t, "+draw("open", "deny", "ask", "allow")+"}\n")
		lower := "rules:\n  - {name: mine, tool: t, " + draw("mine", "deny", "ask", "allow") + "}\n"
		if rapid.Bool().Draw(t, "disables") {
			lower = "disable: [open]\n" + lower
		}
		if rapid.Bool().Draw(t, "defaults") {
			lower = "defaults: {mode: bypass, on_error: ask, expiry: 999h, enforcement: audit}\n" + lower
		}
		decide := func(files ...permission.File) permission.Decision {
			b, err := permission.Load(files, everything())
			if err != nil {
				t.Fatal(err)
			}
			return b.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(input), Mode: mode})
		}
		alone, all := decide(locked), decide(locked, open, layered(permission.LayerUser, lower))
		byRule := alone.Rule == "locked"
		if byRule && alone.Behavior == message.BehaviorDeny && all.Behavior != message.BehaviorDeny ||
			byRule && all.Behavior == message.BehaviorAllow {
			t.Fatalf("without lower layers %s by %q, with them %s by %q", alone.Behavior, alone.Rule, all.Behavior, all.Rule)
		}
	})
}

func TestPathsOfLayers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b := write("a.yaml", "1\n"), write("user=b.yaml", "2\n")
	files, err := permission.Paths("managed="+a, b, b).Read(t.Context())
	want := []permission.File{{Name: a, Data: []byte("1\n"), Layer: permission.LayerManaged}, {Name: b, Data: []byte("2\n")}}
	if err != nil || !cmp.Equal(files, want) {
		t.Errorf("Read = %+v, %v; want %+v", files, err, want)
	}
	files, err = permission.Paths("run=" + dir).Read(t.Context())
	if err != nil || len(files) != 2 || files[0].Layer != permission.LayerRun || files[1].Layer != permission.LayerRun {
		t.Errorf("a folder of a layer: %+v, %v", files, err)
	}
	if files, err := permission.Paths("managed="+a, "user="+dir).Read(t.Context()); err == nil {
		t.Errorf("the same file in two layers: %+v", files)
	}
	if files, err := permission.Paths("boss=" + a).Read(t.Context()); err == nil {
		t.Errorf("an unknown layer: %+v", files)
	}
}

func TestUnknownLayerIsNamed(t *testing.T) {
	_, err := permission.Paths("org=" + filepath.Join(t.TempDir(), "rules.yaml")).Read(t.Context())
	if err == nil || !strings.Contains(err.Error(), "org is not a layer; layers are managed, project, user and run") || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read = %v", err)
	}
}
