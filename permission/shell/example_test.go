package shell_test

import (
	"fmt"

	"github.com/askance-dev/askance/permission/shell"
)

func ExampleLine_Cover() {
	status, _ := shell.Compile("git status:*")
	log, _ := shell.Compile("git log:*")

	for _, line := range []string{
		"git status && git log -n 3",
		"git status; touch x",
		"git log --output=x",
		"git status > x",
	} {
		c := shell.Parse(line).Cover([]*shell.Pattern{status, log})
		fmt.Printf("%q covered: %v\n", line, c.Covered)
		for _, r := range c.Reasons {
			fmt.Println("   line:", r)
		}
		for _, cmd := range c.Commands {
			if !cmd.Covered {
				fmt.Println("  ", cmd.Command.String()+":", cmd.Why)
			}
		}
	}
	// Output:
	// "git status && git log -n 3" covered: true
	// "git status; touch x" covered: false
	//    touch x: no allow rule names touch x (no_rule)
	// "git log --output=x" covered: false
	//    git log --output=x: git log has the option --output=x, which is not among those that a rule admits (option)
	// "git status > x" covered: false
	//    line: redirects to or from something other than /dev/null: > x (redirect)
}

func ExamplePattern_Matches() {
	push, _ := shell.Compile("git push:*")
	for _, line := range []string{"cd x && git -C y push", "echo git push", "git $X"} {
		matched, err := push.Matches(shell.Parse(line))
		fmt.Println(matched, err)
	}
	// Output:
	// true <nil>
	// false <nil>
	// false what the line runs is not known before it runs: "git $X" at byte 0 may be "git push:*"
}

func ExampleLine_ReadOnly() {
	for _, line := range []string{"ls -la | grep x", "ls & rm x", "git branch -D main"} {
		fmt.Println(shell.Parse(line).ReadOnly())
	}
	// Output:
	// true
	// false
	// false
}
