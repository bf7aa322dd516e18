package lint_test

import (
	"slices"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/permission/lint"
)

// Conditions of allow rules on what a command line runs are judged as contents
// are.
func TestConditionsOnCommands(t *testing.T) {
	kind, err := agentscope.New(agentscope.Bash, agentscope.Config{})
	if err != nil {
		t.Fatal(err)
	}
	opts := lint.Options{Options: permission.Options{Tools: []permission.Tool{{Name: "Bash", Kind: kind}}}}
	for _, tc := range []struct {
		when     string
		behavior message.Behavior
		iKnow    bool
		want     []lint.Code
	}{
		{`size(cmd.calls) > 0 && cmd.calls.all(c, c.argv[0] == "python3")`, message.BehaviorAllow, false, []lint.Code{lint.Interpreter}},
		{`size(cmd.calls) > 0 && cmd.calls.all(c, "xargs" == c.argv[0])`, message.BehaviorAllow, false, []lint.Code{lint.Interpreter}},
		{`size(cmd.calls) > 0 && cmd.calls.all(c, c.argv[0] in ["git", "sh", "env"])`, message.BehaviorAllow, false, []lint.Code{lint.Interpreter, lint.Interpreter}},
		{`size(cmd.calls) > 0 && cmd.calls.all(c, c.argv[0] == "git")`, message.BehaviorAllow, false, nil},
		{`size(cmd.calls) > 0 && cmd.calls.all(c, c.argv[0] == "git" && c.argv[1] == "sh")`, message.BehaviorAllow, false, nil},
		{`size(cmd.calls) > 0 && cmd.calls.all(c, c.argv[0] == "sh")`, message.BehaviorAllow, true, nil},
		{`cmd.calls.exists(c, c.argv[0] == "sh")`, message.BehaviorDeny, false, nil},
		{`cmd.calls.all(c, c.argv[0] == "git")`, message.BehaviorAllow, false, []lint.Code{lint.EmptyAll}},
	} {
		file := "version: 1\nname: x\nrules:\n  - name: r\n    tool: Bash\n    behavior: " + string(tc.behavior) + "\n    when: '" + tc.when + "'\n"
		if tc.iKnow {
			file += "    i_know: true\n"
		}
		var got []lint.Code
		for _, f := range lint.Run([]permission.File{{Name: "x.yaml", Data: []byte(file)}}, opts).Findings {
			got = append(got, f.Code)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s in a rule that says %s: %v, want %v", tc.when, tc.behavior, got, tc.want)
		}
	}
}

// Without a list of tools nothing can be said about a name but that.
func TestNoListOfTools(t *testing.T) {
	file := permission.File{Name: "x.yaml", Data: []byte("version: 1\nname: x\nrules: [{name: r, tool: anything, behavior: deny}]\n")}
	r := lint.Run([]permission.File{file}, lint.Options{})
	if r.Errors != 0 || len(r.Findings) != 1 || r.Findings[0].Code != lint.UnknownTool || r.Findings[0].Level != lint.Warning {
		t.Errorf("findings %v", r.Findings)
	}
}
