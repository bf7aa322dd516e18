package agentscope

import (
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// unread contains lines that are not read completely. bash runs commands of some, and rejects
// others.
var unread = []string{
	"`)`; rm -r /etc", "a[1]=2 cp k ~/.ssh/authorized_keys", "foo[1]+=2 rm -r /etc", "a[1]=2 b[2]=3 env cp k ~/.ssh/authorized_keys",
	"ls )", "fi; ls", "if; ls", "echo ${x", "git status 'unclosed", "ls\n)\nrm -r /etc", "x[1]=2 sh <<E\nrm -r /etc\nE",
	"bash -c 'a[1]=2 cp k ~/.ssh/authorized_keys'", "eval '`)`; rm -r /etc'", "sh <<E\n`)`; rm -r /etc\nE", "echo ok; sh -c 'if'",
}

// No allow rule, not even one for all of Bash, covers a line that was not read to its end,
// because the unread part may be the dangerous one.
func TestUnreadLinesAreNotCovered(t *testing.T) {
	for _, command := range unread {
		for _, content := range []string{"", "*", "**"} {
			if d := decideLine(t, command, permission.ModeDefault, bashRule("allow", content)); d.Behavior != "ask" {
				t.Errorf("%q under allow %q: %s by %s", command, content, d.Behavior, d.Step)
			}
			if d := decideLine(t, command, permission.ModeDontAsk, bashRule("allow", content)); d.Behavior != "deny" {
				t.Errorf("%q under allow %q in dont_ask: %s by %s", command, content, d.Behavior, d.Step)
			}
		}
	}
	for _, command := range []string{"ls", "echo 'rm -r /etc'", "bash -c 'ls -l'", "git commit -m 'a (b'", "a=(1 2)", "cat <<E\n)\nE"} {
		if d := decideLine(t, command, permission.ModeDefault, bashRule("allow", "")); d.Behavior != "allow" {
			t.Errorf("%q under a rule that allows everything: %s by %s: %s", command, d.Behavior, d.Step, d.Reason)
		}
	}
}

// A deny rule for everything denies a call without the argument, as in AgentScope.
func TestDenyRulesNeedNoArgument(t *testing.T) {
	for _, content := range []string{"*", ":*", "**"} {
		upstream, ours := decideBoth(t, "Bash", []message.PermissionRule{bashRule("deny", content)},
			permission.Request{Tool: "Bash", Input: []byte(`{"cmd": "ls"}`), Mode: permission.ModeDefault, Cwd: "/workspace/project"})
		if upstream.Behavior != "deny" || ours.Behavior != "deny" {
			t.Errorf("deny %q: %s by %s, upstream %s", content, ours.Behavior, ours.Step, upstream.Behavior)
		}
	}
}

// Deny rules apply to the part of a line that could be read.
func TestDenyRulesReadUnreadLines(t *testing.T) {
	for _, command := range []string{"`)`; rm x", "a[1]=2 rm x", "rm x; )", "ls; if; rm x", "bash -c 'a[1]=2 rm x'"} {
		if d := decideLine(t, command, permission.ModeBypass, bashRule("deny", "rm:*")); d.Behavior != "deny" {
			t.Errorf("%q under deny rm:*: %s by %s", command, d.Behavior, d.Step)
		}
	}
}
