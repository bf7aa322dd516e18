package shell

import "fmt"

// Code names why no allow rule covers a line or one of its commands.
type Code string

// The codes. What is found in the text of the line comes first, what is found
// against rules last.
const (
	CodeHidden      Code = "hidden_character"  // a person cannot see what runs: denied
	CodeTooLong     Code = "too_long"          // over MaxBytes
	CodeTooMany     Code = "too_many_commands" // over MaxCommands
	CodeEmpty       Code = "no_command"        // nothing runs
	CodeSyntax      Code = "syntax"            // does not parse
	CodeShells      Code = "shells_differ"     // bash and sh read it differently, or a reader is not sure
	CodeBackground  Code = "background"        // &, coproc
	CodeNegation    Code = "negation"          // ! command
	CodeControl     Code = "control_flow"      // if, for, case, subshells, groups, [[ ]], (( )), |&
	CodeFunction    Code = "function"          // a definition hides the program of that name
	CodeRedirect    Code = "redirect"          // to or from anything but /dev/null and other descriptors
	CodeAssignment  Code = "assignment"        // NAME=value
	CodeDeclaration Code = "declaration"       // export, alias, set, eval and others that change the shell
	CodeSubst       Code = "substitution"      // $( ), backquotes, <( ), >( )
	CodeExpansion   Code = "expansion"         // $NAME, ${ }, $(( )), ~
	CodeGlob        Code = "glob"              // *, ?, [ ] that do not begin with ./ or /
	CodeBraces      Code = "braces"            // {a,b}
	CodeQuoting     Code = "quoting"           // $'...' and $"..."
	CodeFolder      Code = "changes_folder"    // cd together with git or another program that the folder configures
	CodeNoRule      Code = "no_rule"           // no rule names the command
	CodeOption      Code = "option"            // a rule names the command, but does not cover what its arguments do
	CodeNoTable     Code = "unknown_program"   // a rule names the command, but what its options do is not known
)

// Reason is one reason with its place in the text.
type Reason struct {
	Code   Code
	Offset int    // in bytes; of the command or of the very part
	Detail string // in words, may quote the text
}

// String gives the detail with the code.
func (r Reason) String() string {
	if r.Detail == "" {
		return string(r.Code)
	}
	return fmt.Sprintf("%s (%s)", r.Detail, r.Code)
}
