// Package agentscope has the kinds of AgentScope's own tools: what their rules
// mean, which calls are read-only, which are dangerous, and which rules are
// offered with an approval request.
//
// [New] makes a kind by its name; a tool has it as its Kind:
//
//	kind, err := agentscope.New("bash", agentscope.Config{Home: "/home/dev"})
//	tool := permission.Tool{Name: "Bash", Kind: kind}
//
//	kind        arguments        a rule's content              read-only
//	bash        command          git status:*, git * main      as the command
//	read        file_path        fnmatch of the path           always, where no rule protects the file
//	write edit  file_path        fnmatch of the path           never
//	glob grep   path, pattern    fnmatch of the path           always
//	powershell  command          none                          never
//	cmd         command          none                          never
//	mcp         any              none                          as the tool is declared
//	function    any              none                          as the tool is declared
//
// # Differences from AgentScope
//
// The kinds differ from AgentScope 2.0.6 where it allows what no author of a rule
// meant to allow: they never allow more and never deny less. The tests reproduce
// the recorded decisions, analyses and matches in testdata row by row with an
// oracle. DEVIATIONS.md lists all differences on the recorded rows, and the rows
// in testdata/recorded note their reasons. In short:
//
//   - A command is read-only if package permission/shell proves it, command by
//     command; upstream looks at the beginning of the line.
//   - An allow rule covers a line if every command of it is covered by a rule,
//     options included; several rules may do so together. The content * covers
//     every line, as a rule without a content does.
//   - An allow rule of a policy, not one in AgentScope's form or of a session, also
//     covers substitutions and control flow. The content * does so if every program
//     of the line is known before it runs, any other if the commands are plain.
//   - A deny or ask rule is about a line if it is about any command in it, in
//     any order of options and behind wrappers. Where this is unknown before it
//     runs, the call is asked about.
//   - Paths are compared as what they mean: cleaned, absolute and relative, links
//     followed. An allow rule about writing whose content does not say where it
//     begins, with /, ~/ or ../, speaks of files in the working directories only.
//   - Edits without an approval request, in mode accept_edits, are proven for every
//     command and every argument. In mode dont_ask upstream allows them, too; here
//     dont_ask never allows what default mode asks about.
//   - A deny or ask rule about a tool of kind read protects the files from every kind
//     that can show what is in them: bash, edit, glob and grep. A search that may find
//     one of the files, and a line that may read one, is asked about.
//   - A character that a person cannot see denies.
//   - Where a tool may run on Windows, deny and ask rules know each spelling of a path
//     there, and a path that only Windows reads, such as C:\x, is covered by no allow
//     rule with content, is in no working directory, and is not read-only.
//     [Config].Home tells the system.
//
// # What is asked about in any case
//
// Allow rules do not cover these, except in bypass mode: commands whose parts are
// not known before they run, commands with dangerous text such as rm -rf, sed
// that does more than print and replace, writing sensitive files (.env, .ssh,
// .git and others), removing the root, home, a folder of the root or all of a
// folder. Such an approval request is bypass-immune. The decision's Step names the part.
// Where quotes, wrappers or links hide such a thing from AgentScope, the approval request
// is the plain one of the mode; no allow rule answers it either. The same holds
// for a line that cannot be read in full.
//
// # Approval requests that one answer resolves
//
// The rules that are suggested with an approval request can resolve the approval requests of
// other calls. The engine finds out by deciding those again with the
// suggested rules among the SessionRules, for the calls of one batch: a call that they allow, and that is not immune, need not be asked
// about before the first approval request is answered.
//
// # Limits
//
// Only [Config].Links looks at files. Between the decision and the run a link
// can change. The kinds know the names of AgentScope's arguments; [Config].Argument
// names another one. They may be used by any number of goroutines.
package agentscope
