package agentscope

import (
	"regexp"
	"slices"

	"github.com/askance-dev/askance/permission/shell"
)

// This file says which commands of git show or write what a rule about files protects.

var (
	// gitPrints are the commands of git that print or copy what files have, and gitLogs those that do
	// so only with an option of gitPatch, which git also accepts as one of several letters.
	gitPrints = setOf("grep archive format-patch fast-export bundle difftool mergetool range-diff")
	gitLogs   = setOf("log reflog whatchanged diff-tree diff-index diff-files")
	gitNames  = regexp.MustCompile(`^(-s|--(stat|shortstat|numstat|name-only|name-status|summary|quiet|no-patch|dirstat)(=.*)?)$`)
	gitPatch  = regexp.MustCompile(`^-([^-SGOXnl]*[puUWLc].*|-(cc|dd|pat?c?h?|patch-.*|unif.*|func.*|word-.*|color-w.*|bin.*|remerge.*|diff-m.*)(=.*)?)$`)
	// blobID matches what may be the id of a file's content, which git show prints with any option.
	blobID = regexp.MustCompile(`^[0-9a-f]{4,64}$`)
	// gitWrites are the commands of git that write into a folder that they are given.
	gitWrites = setOf("clone restore checkout worktree init")
	// catsNothing matches the options with which git cat-file prints no content.
	catsNothing = regexp.MustCompile(`^-[tse]$`)
)

// printsFiles reports whether a command of git, from its sub-command on, may print or copy what files
// have.
func printsFiles(args []shell.Word) bool {
	if len(args) == 0 {
		return false
	}
	options := args[1:]
	if i := slices.IndexFunc(options, func(w shell.Word) bool { return w.Text == "--" }); i >= 0 {
		options = options[:i]
	}
	has := func(option *regexp.Regexp) bool {
		return slices.ContainsFunc(options, func(w shell.Word) bool { return option.MatchString(w.Text) })
	}
	switch name := args[0].Text; name {
	case "diff":
		return !has(gitNames) || has(gitPatch)
	case "show":
		return !has(gitNames) || has(gitPatch) || has(blobID) || slices.ContainsFunc(options, func(w shell.Word) bool { return !w.Fixed })
	case "cat-file":
		return !has(catsNothing)
	case "stash":
		return len(options) > 0 && (options[0].Text == "show" || options[0].Text == "list") && has(gitPatch)
	default:
		return !args[0].Fixed || gitPrints[name] || gitLogs[name] && has(gitPatch)
	}
}
