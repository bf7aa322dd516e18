package agentscope

import (
	"slices"
	"testing"
)

// Lines that bash and AgentScope's grammar read differently: what AgentScope suggests, and which
// node it cannot analyse. Recorded from the same version as testdata.
func TestOracleOddLines(t *testing.T) {
	for _, tt := range []struct {
		command, dynamic string
		prefixes         []string
	}{
		{"git status\\\n; touch P", "", []string{"git status", "touch P"}},
		{"npm run build \\\n && git push \\\n origin", "", []string{"npm run", "git push"}},
		{"r\\\nm x", "", []string{"r m"}},
		{"git status\x0btouch P", "", []string{"git status"}},
		{"; npm run x", "", []string{"npm run"}},
		{"&& npm run x", "", []string{"npm run"}},
		{"| npm run x", "", []string{"npm run"}},
		{"git status a=(b)", "subshell", []string{"git status"}},
		{"npm run (a)", "subshell", nil},
		{"ls $(a", "command_substitution", nil},
		{"npm > y run x", "", nil},
		{"> y npm run x", "", []string{"npm run"}},
		{"coproc { rm x; }", "", []string{"coproc {"}},
		{"coproc N { rm x; }", "", []string{"coproc N"}},
		{"let 'x=1'", "", []string{}},
		{"let a b", "", []string{"let a"}},
		{"time -p make all", "", []string{"time -p"}},
		{"{npm run x;}", "", []string{"npm run"}},
		{"{ ls; } x y", "", []string{"x y"}},
		{"(ls) x y", "subshell", []string{"x y"}},
		{"a=(1 2) npm run x", "", []string{}},
		{"for f in *; do; done && npm run x", "for_statement", []string{"npm run"}},
		{"if true; then; fi", "if_statement", []string{}},
		{"while true; do; done", "while_statement", []string{}},
		{"case x in a b) ls;; esac", "case_statement", []string{}},
		{"[[ a b ]] || npm run x", "test_command", []string{"npm run"}},
		{"ls |& # c", "", []string{}},
		{"npm run x | ! git push y", "", []string{"npm run", "git push"}},
		{";; npm run x", "", []string{"npm run"}},
		{"{r,}m x", "", []string{"r,}m x"}},
		{"npm run x ;; ls", "", []string{"npm run"}},
		{"npm run x && && git push y", "", []string{"npm run", "git push"}},
		{"if npm run x; then; fi && git push y", "if_statement", []string{"npm run", "git push"}},
	} {
		got := analyseAsUpstream(tt.command)
		if dynamic := deref(got.Injection); dynamic != tt.dynamic && (tt.dynamic != "" || got.Injection != nil) {
			t.Errorf("%q: %s, want %q", tt.command, dynamic, tt.dynamic)
		}
		if tt.prefixes != nil && !slices.Equal(got.Prefixes, tt.prefixes) {
			t.Errorf("%q suggests %q, want %q", tt.command, got.Prefixes, tt.prefixes)
		}
	}
}

// TestOraclePieces: where AgentScope's grammar ends a command.
func TestOraclePieces(t *testing.T) {
	for command, want := range map[string][]string{
		"npm 2>/dev/null run x": {"npm"},
		"rm a > b c":            {"rm a"},
		"npm run >a >b x":       {"npm run"},
		"ls\r\npwd":             {"ls", "pwd"},
		"coproc { ls; }":        {"coproc { ls", "}"},
		"{a,b}":                 {"{a,b}"},
		"ls && && pwd":          {"ls", "pwd"},
		"if true; then; fi; ls": {"true", "ls"},
		"CI=true unset A b":     {"CI=true unset A b"},
		"npm run x <<< y":       {"npm run x <<< y"},
		"> y npm run x":         {"> y npm run x"},
	} {
		if got := analyseAsUpstream(command).Subcommands; !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}
