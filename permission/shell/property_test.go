package shell_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/permission/shell"
)

// arguments generates words that are difficult to quote.
func arguments() *rapid.Generator[[]string] {
	word := rapid.OneOf(
		rapid.SampledFrom([]string{"", "-n", "--x=y", "a b", "'", `"`, `\`, "$X", "$(x)", "`x`", "*", "{a,b}", "~", "a;b", "#", "!", "a\nb", "é", "=", "[", "&&", ">f"}),
		rapid.StringOfN(rapid.RuneFrom([]rune("abz09 -_.,:=+@%^/'\"\\$`*?[]{}()<>|&;#!~\n\t")), 0, 8, -1),
	)
	return rapid.SliceOfN(word, 0, 6)
}

func quoteAll(argv []string) string {
	quoted := make([]string, len(argv))
	for i, a := range argv {
		quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// A quoted text stays one argument, character by character, and a rule for the program always
// covers it.
func TestQuotedArguments(t *testing.T) {
	allow := patterns(t, "echo:*")
	rapid.Check(t, func(t *rapid.T) {
		argv := append([]string{"echo"}, arguments().Draw(t, "argv")...)
		line := "echo " + quoteAll(argv[1:])
		l := shell.Parse(line)
		if len(l.Commands) != 1 || !slices.Equal(l.Commands[0].Args(), argv) {
			t.Fatalf("%q is %+v, want %q", line, l.Commands, argv)
		}
		if !l.Covers(allow) {
			t.Fatalf("%q is not covered: %+v", line, l.Cover(allow))
		}
		if again := shell.Parse(l.Commands[0].String()); len(again.Commands) != 1 || !slices.Equal(again.Commands[0].Args(), argv) {
			t.Fatalf("%q is formatted as %q", line, l.Commands[0].String())
		}
	})
}

// A command that no rule names is never covered together with commands that are, no matter how
// they are joined, and a rule that denies it always matches.
func TestJoined(t *testing.T) {
	allow := patterns(t, "git status:*", "echo:*")
	deny := patterns(t, "touch:*")[0]
	rapid.Check(t, func(t *rapid.T) {
		join := rapid.SampledFrom([]string{";", "\n", "&&", "||", "|", "&", " ;\n", " # x\n", "|&", "&>f ", ">f;", "2>&1;"}).Draw(t, "join")
		parts := []string{"git status", "touch " + quoteAll(arguments().Draw(t, "touch")), "echo " + quoteAll(arguments().Draw(t, "echo"))}
		parts = rapid.Permutation(parts).Draw(t, "order")
		line := strings.Join(parts, join)
		l := shell.Parse(line)
		if l.Covers(allow) {
			t.Fatalf("%q is covered", line)
		}
		if matched, err := deny.Matches(l); !matched && err == nil {
			t.Fatalf("a rule for touch does not match %q: %+v %+v", line, l.Commands, l.Nested)
		}
	})
}

// More allow rules only ever cover more, and so does trusting options.
func TestCoverGrows(t *testing.T) {
	contents := []string{"git status:*", "git:*", "ls:*", "echo:*", "git * x", "npm test", "find:*", "*"}
	words := rapid.SampledFrom([]string{"git", "status", "ls", "echo", "npm", "test", "find", ".", "-delete", "--output=x", "x", ";", "&&", "|", "\n", "$X", ">f", "(", ")", "&"})
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(words, 1, 10).Draw(t, "line"), " ")
		l := shell.Parse(line)
		var allow, trusting []*shell.Pattern
		covered := false
		for _, c := range rapid.Permutation(contents).Draw(t, "rules") {
			p, err := shell.Compile(c)
			if err != nil {
				t.Fatal(err)
			}
			allow, trusting = append(allow, p), append(trusting, p.TrustOptions())
			now := l.Covers(allow)
			if covered && !now {
				t.Fatalf("%q was covered before the rule %q", line, c)
			}
			if now && !l.Covers(trusting) {
				t.Fatalf("%q is covered, but not by rules that trust options", line)
			}
			covered = now
		}
	})
}

// A rule that is offered covers exactly the line, and no line with another word, one more word or
// another command.
func TestOffers(t *testing.T) {
	word := rapid.OneOf(rapid.SampledFrom([]string{"-n", "dev", "get", "--all", "-o=x", "'a b'", `"c*d"`, "x:*", `'\'`, "'\\*'", "--", "é", "a=b", "./x", "prod"}))
	command := rapid.Custom(func(t *rapid.T) string {
		program := rapid.SampledFrom([]string{"kubectl", "git", "ssh", "gh", "npm", "rm", "mytool", "A=1 make", "time make", "cd"}).Draw(t, "program")
		return strings.Join(append([]string{program}, rapid.SliceOfN(word, 1, 5).Draw(t, "words")...), " ")
	})
	offered := 0
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(command, 1, 3).Draw(t, "commands"), rapid.SampledFrom([]string{" && ", "; ", " | head -1; "}).Draw(t, "joint"))
		offer := shell.Parse(line).Offer()
		if offer == "" {
			return
		}
		offered++
		p, err := shell.Compile(offer)
		if err != nil || !shell.Parse(line).Covers([]*shell.Pattern{p}) {
			t.Fatalf("%q is offered %q, which does not cover it: %v", line, offer, err)
		}
		other := rapid.SampledFrom([]string{line + " --all", line + " -n prod", line + " && rm -r x", "rm -r x; " + line,
			strings.Replace(line, " ", " -x ", 1), line + " $(x)"}).Draw(t, "other")
		if shell.Parse(other).Covers([]*shell.Pattern{p}) {
			t.Fatalf("%q is offered %q, which covers %q", line, offer, other)
		}
	})
	if offered == 0 {
		t.Error("nothing was offered")
	}
}

// The offers for everyday calls cover those calls but not similar ones.
func TestOffersOfCalls(t *testing.T) {
	for _, tt := range []struct{ line, offer, neighbor string }{
		{"kubectl -n dev get pods", "kubectl -n dev get pods", "kubectl -n prod delete deploy --all"},
		{"git --no-pager fetch", "git --no-pager fetch", "git --no-pager push"},
		{"ssh prod uptime", "ssh prod uptime", "ssh prod rm -r /data"},
		{"gh -R a/b pr create", "gh -R a/b pr create", "gh -R a/b repo delete"},
		{"npm run x", "npm run x", "npm run deploy"},
		{"rm -r x", "rm -r x", "rm -r x y"},
		{"rm *.o", "", ""},
		{"rm 'a*b'", `rm 'a\*b'`, "rm axb"},
		{"npm test | tail -5", "npm test", "npm test -- --reporter=x"},
		{"cd web && npm test", "cd web && npm test", "cd /tmp && npm test"},
		{"make > out.txt", "make > out.txt", "make > /etc/passwd"},
		{"A=1 make", "A=1 make", "make"},
		{"for i in 1 2; do make; done", "for i in 1 2; do make; done", "make"},
		{"rm $X", "", ""},
		{"rm `x`", "", ""},
	} {
		offer := shell.Parse(tt.line).Offer()
		if offer != tt.offer {
			t.Errorf("%q is offered %q, want %q", tt.line, offer, tt.offer)
		}
		if offer == "" {
			continue
		}
		allow := patterns(t, offer)
		if !shell.Parse(tt.line).Covers(allow) || shell.Parse(tt.neighbor).Covers(allow) {
			t.Errorf("%q is offered %q, which must cover it but not %q", tt.line, offer, tt.neighbor)
		}
	}
}
