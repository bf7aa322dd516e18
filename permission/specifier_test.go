package permission_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// anyContent is a matcher that compiles every content.
type anyContent struct{}

func (anyContent) Compile(content string, _ message.Behavior) (permission.Pattern, error) {
	return contentIs(content), nil
}

func (anyContent) Suggest(permission.Call) []message.PermissionRule { return nil }

type contentIs string

func (i contentIs) Match(c permission.Call) (bool, error) {
	return filepath.Match(string(i), fmt.Sprint(c.Input["file_path"], c.Input["command"]))
}

func specifierOptions(t *testing.T) permission.Options {
	t.Helper()
	return permission.Options{
		Tools: []permission.Tool{
			{Name: "Bash"}, {Name: "Read"}, {Name: "Edit"},
			{Name: "WebFetch", Schema: schema(t, `{"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}, "depth": {"type": "integer"}, "fresh": {"type": "boolean"}, "tags": {"type": "array"}}}`)},
			{Name: "mcp__github__search", Server: "github"}, {Name: "mail", Server: "post"}, {Name: "Untyped"},
		},
		Matchers: map[string]permission.Matcher{"Bash": anyContent{}, "Read": anyContent{}, "Edit": anyContent{}},
	}
}

// shownRule returns the relevant parts of an imported rule.
func shownRule(r permission.Rule) string {
	out := fmt.Sprintf("%s %s", r.Behavior, strings.Join(r.Tools, ","))
	if r.RuleContent != nil {
		out += " content " + *r.RuleContent
	}
	if r.When != "" {
		out += " when " + r.When
	}
	return out
}

func TestSpecifiers(t *testing.T) {
	for _, tc := range []struct {
		behavior message.Behavior
		text     string
		want     []string
	}{
		{"allow", "Read", []string{"allow Read"}},
		{"allow", "Read(*)", []string{"allow Read"}},
		{"deny", "*", []string{"deny *"}},
		{"ask", " Bash ", []string{"ask Bash"}},
		{"allow", "Bash(git status:*)", []string{"allow Bash content git status:*"}},
		{"allow", "Bash(git status *)", []string{"allow Bash content git status:*"}},
		{"allow", "Bash(git * main)", []string{"allow Bash content git * main"}},
		{"allow", `Bash(echo "a (b)")`, []string{`allow Bash when args.command == "echo \"a (b)\""`}},
		{"deny", "Bash(rm -rf /)", []string{"deny Bash content rm -rf /"}},
		{"allow", "Read(./src/**)", []string{"allow Read content src/**"}},
		{"allow", "Read(//etc/hosts)", []string{"allow Read content /etc/hosts"}},
		{"deny", "Read(//etc/ssl/)", []string{"deny Read content /etc/ssl", "deny Read content /etc/ssl/*"}},
		{"deny", "Edit(.env)", []string{"deny Edit content .env", "deny Edit content */.env", "deny Edit content .env/*", "deny Edit content */.env/*"}},
		{"deny", "Edit(src/**/*.go)", []string{"deny Edit content src/**/*.go", "deny Edit content src/*.go", "deny Edit content src/**/*.go/*", "deny Edit content src/*.go/*"}},
		{"allow", "Edit(src/**/*.go)", []string{"allow Edit content src/**/*.go"}},
		{"allow", "WebFetch(url:https://example.com/)", []string{`allow WebFetch when args.url == "https://example.com/"`}},
		{"deny", "WebFetch(depth:3)", []string{"deny WebFetch when has(args.depth) && args.depth == 3"}},
		{"deny", "WebFetch(fresh:true)", []string{"deny WebFetch when has(args.fresh) && args.fresh == true"}},
		{"allow", "WebFetch(domain:example.com)", []string{`allow WebFetch when url.hostIn(args.url, ["example.com"])`}},
		{"allow", "WebFetch(domain:*.example.com)", []string{`allow WebFetch when url.hostIn(args.url, ["*.example.com"])`}},
		{"deny", "WebFetch(domain:example.com)", []string{`deny WebFetch when url.hostIn(args.url, ["example.com", "*.example.com"])`}},
		{"deny", "Untyped(domain:example.com)", []string{`deny Untyped when url.hostIn(args.url, ["example.com", "*.example.com"])`}},
		{"allow", "mcp__github__search", []string{"allow mcp__github__search"}},
		{"allow", "mcp__github__*", []string{"allow github/*"}},
		{"deny", "mcp__github", []string{"deny github/*"}},
		{"ask", "mcp__post__mail", []string{"ask mail"}},
	} {
		t.Run(string(tc.behavior)+" "+tc.text, func(t *testing.T) {
			p, err := permission.FromSpecifiers(specifiers(tc.behavior, tc.text), specifierOptions(t))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range p.Rules {
				got = append(got, shownRule(r))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}

func specifiers(b message.Behavior, text string) permission.Specifiers {
	switch b {
	case message.BehaviorAllow:
		return permission.Specifiers{Allow: []string{text}}
	case message.BehaviorAsk:
		return permission.Specifiers{Ask: []string{text}}
	default:
		return permission.Specifiers{Deny: []string{text}}
	}
}

func TestSpecifiersRefused(t *testing.T) {
	for _, tc := range []struct {
		behavior   message.Behavior
		text, want string
	}{
		{"allow", "Reed", "there is no tool Reed; did you mean Read?"},
		{"deny", "mcp__github__serch", "there is no tool mcp__github__serch"},
		{"deny", "mcp__gitlab__*", "server gitlab has no tool"},
		{"allow", `Read(C:\src\**)`, "is a Windows path, which no allow rule covers"},
		{"allow", "*", "a pattern over tool names would allow"},
		{"allow", "mcp__*", "a pattern over tool names would allow"},
		{"allow", "mcp__git*__search", "a pattern over tool names would allow"},
		{"deny", "Re*", "tool names are exact"},
		{"allow", "Read(", "does not have the form"},
		{"allow", "", "does not have the form"},
		{"allow", "Read()", "the specifier is empty"},
		{"allow", "mcp__github__*(x)", "needs the name of one tool"},
		{"allow", "WebFetch(domain:*)", "the tool has no parameter domain"},
		{"allow", "WebFetch(domain:https://example.com)", "url.hostIn"},
		{"allow", "Bash(domain:example.com) x", "does not have the form"},
		{"deny", "WebFetch(urls:x)", "the tool has no parameter urls; did you mean url?"},
		{"deny", "WebFetch(depth:three)", "is not a whole number"},
		{"deny", "WebFetch(fresh:yes)", "is not true or false"},
		{"deny", "WebFetch(tags:x)", "neither text nor"},
		{"allow", "WebFetch(url:https://*)", "is ambiguous"},
		{"allow", "WebFetch(anything)", "nothing can interpret anything"},
		{"deny", "Untyped(a:b)", "the tool has no schema"},
		{"deny", "Read(~/.ssh/**)", "~ stands for a home folder"},
		{"deny", "Read(/etc/**)", "write // for an absolute path"},
		{"deny", "Read(!src)", "begins with !"},
		{"allow", "Edit(src/*.go)", "its * would match across folders"},
	} {
		t.Run(string(tc.behavior)+" "+tc.text, func(t *testing.T) {
			_, err := permission.FromSpecifiers(specifiers(tc.behavior, tc.text), specifierOptions(t))
			var le *permission.LoadError
			if !errors.As(err, &le) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestImportContext(t *testing.T) {
	rule := func(content *string) []message.PermissionRule {
		return []message.PermissionRule{{RuleContent: content, Source: "userSettings"}}
	}
	good := message.PermissionContext{Mode: message.ModeDefault, AllowRules: map[string][]message.PermissionRule{"Bash": rule(new("ls:*"))}}
	p, err := permission.ImportContext(good, specifierOptions(t))
	if err != nil || len(p.Rules) != 1 || shownRule(p.Rules[0]) != "allow Bash content ls:*" {
		t.Errorf("ImportContext = %v, %v", p.Rules, err)
	}
	for name, bad := range map[string]message.PermissionContext{
		"there is no tool Bsah":       {DenyRules: map[string][]message.PermissionRule{"Bsah": rule(nil)}},
		"no matcher can interpret":    {DenyRules: map[string][]message.PermissionRule{"Untyped": rule(new("x"))}},
		"unknown permission mode":     {Mode: "plan"},
		"an allow rule must name its": {AllowRules: map[string][]message.PermissionRule{"*": rule(nil)}},
	} {
		var le *permission.LoadError
		if _, err := permission.ImportContext(bad, specifierOptions(t)); !errors.As(err, &le) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Long texts that begin alike are different rules, and none loses a reading.
func TestLongSpecifiers(t *testing.T) {
	long := strings.Repeat("x", 250)
	p, err := permission.FromSpecifiers(permission.Specifiers{Deny: []string{"Bash(" + long + "a)", "Bash(" + long + "b)", "Bash(" + long + "b)", "Read(" + long + ")"}}, specifierOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range p.Rules {
		got = append(got, shownRule(r))
	}
	want := []string{"deny Bash content " + long + "a", "deny Bash content " + long + "b", "deny Read content " + long, "deny Read content */" + long, "deny Read content " + long + "/*", "deny Read content */" + long + "/*"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}
