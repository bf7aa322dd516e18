// Package agentscope contains the kinds of AgentScope's own tools. They define what a
// tool's rules mean, which calls are read-only or dangerous, and which rules are
// suggested with an approval request.
//
// [New] returns the kind with a name; a tool has it as its Kind:
//
//	kind, err := agentscope.New("bash", agentscope.Config{Home: "/home/dev"})
//	tool := permission.Tool{Name: "Bash", Kind: kind}
//
//	kind        arguments        a rule's content              read-only
//	bash        command          git status:*, git * main      if the command is
//	read        file_path        fnmatch of the path           always, unless a rule protects the file
//	write edit  file_path        fnmatch of the path           never
//	glob grep   path, pattern    fnmatch of the path           always
//	powershell  command          none                          never
//	cmd         command          none                          never
//	mcp         any              none                          as the tool is declared
//	function    any              none                          as the tool is declared
//
// # Differences from AgentScope
//
// The kinds differ from AgentScope 2.0.6 where it allows what no author of a rule meant
// to allow. They never allow more and never deny less. The tests reproduce the recorded
// decisions, analyses and matches in testdata row by row with an oracle. DEVIATIONS.md
// lists all differences in the recorded rows, and the rows in testdata/recorded note
// the reasons. In short:
//
//   - A command is read-only if package permission/shell proves it, command by
//     command; upstream looks at the beginning of the line.
//   - An allow rule covers a line only if rules cover every command in it,
//     including its options; several rules can do so together. The content *
//     covers every line, like a rule without content.
//   - An allow rule of a policy, but not one in AgentScope's form or of a session,
//     also covers substitutions and control flow: the content * if every program in
//     the line is known before it runs, any other content if the commands are plain.
//   - A deny or ask rule matches a line if it matches any command in it, with
//     options in any order and behind wrappers. If that is not known before the
//     line runs, the call is asked about.
//   - Paths are compared by their meaning: cleaned, absolute and relative, with links
//     followed. An allow rule about writing matches only files in the working
//     directories, unless its content begins with /, ~/ or ../.
//   - Edits without an approval request, in mode accept_edits, are proved for every
//     command and every argument. Upstream also allows them in mode dont_ask; here
//     dont_ask never allows what default mode asks about.
//   - A deny or ask rule about a tool of kind read protects the files from every kind
//     that can show their content: bash, edit, glob and grep. A search that may find
//     one of the files, and a line that may read one, is asked about.
//   - A character that a person cannot see causes a denial.
//   - Where a tool may run on Windows, deny and ask rules match each spelling of a path
//     there. A path that only Windows understands, such as C:\x, is not covered by any
//     allow rule with content, is in no working directory, and is not read-only.
//     [Config].Home determines the system.
//
// # What is always asked about
//
// Except in bypass mode, allow rules do not cover these: commands with parts that are
// not known before they run, commands with dangerous text such as rm -rf, sed that does
// more than print and replace, writing sensitive files (.env, .ssh, .git and others),
// and removing the root, home, a folder of the root or everything in a folder. Such an
// approval request is bypass-immune, and the decision's Step names the check. If
// quotes, wrappers or links hide such a thing from AgentScope, the approval request is
// an ordinary one of the mode, but no allow rule answers it. The same holds for a line
// that cannot be read completely.
//
// # Approval requests that one answer resolves
//
// The rules suggested with an approval request can resolve the approval requests of
// other calls. To find out, the engine decides the calls of one batch again with the
// suggested rules among the SessionRules. A call that they allow, and that is not
// immune, need not be asked about before the first approval request is answered.
//
// # Limits
//
// Only [Config].Links looks at files. A link can change between the decision and the
// run. The kinds use AgentScope's names of arguments; [Config].Argument sets another
// one. They can be used by any number of goroutines.
package agentscope
