package agentscope

import (
	"regexp"
	"slices"

	"github.com/askance-dev/askance/permission/shell"
)

// This file says which commands of git show or write what a rule about files protects.

var (
	// gitPrints are the commands of git that print or copy what files have. gitLogs do so only with an
	// option of gitPatch, also as one of several letters, and gitHunks only with one of gitVerbose.
	gitPrints  = setOf("grep archive format-patch fast-export bundle difftool mergetool range-diff merge-tree unpack-file checkout-index")
	gitLogs    = regexp.MustCompile(`^(log|reflog|whatchanged|diff-(tree|index|files)|stash (show|list))$`)
	gitHunks   = regexp.MustCompile(`^(add|bisect|checkout|commit|request-pull|reset|restore|stash .*|status)$`)
	gitNames   = regexp.MustCompile(`^(-s|--(stat|shortstat|numstat|name-only|name-status|summary|quiet|no-patch|dirstat)(=.*)?)$`)
	gitPatch   = regexp.MustCompile(`^-([^-SGOXnl]*[puUWLc].*|-(cc|dd|check|pat?c?h?|patch-.*|unif.*|func.*|word-.*|color-w.*|bin.*|remerge.*|diff-m.*|no-q.*)(=.*)?)$`)
	gitVerbose = regexp.MustCompile(`^-([a-lA-Zn-z0-9]*[pv].*|-pa.*|-verb.*)$`)
	// beforeNames matches a word after which one of gitNames is not a value, and ofCommits one after
	// which git show prints no file: any other may be a name of a file's content.
	beforeNames = regexp.MustCompile(`^([^-].*|-[abwzMCR]|--(cached|staged|merge-base|oneline|color|relative|exit-code|text|no-.*|find-.*|ignore-.*space.*|[^=]+=.*))$`)
	ofCommits   = regexp.MustCompile(`^(HEAD|[^-:][^:]*[~^][0-9]*|--(oneline|abbrev-commit|no-.*|pretty|decorate|(pretty|decorate|format|date)=.*))$`)
	// gitNamers are the commands of git that write no files into a folder that they are given.
	gitNamers = setOf("add blame branch cherry-pick commit config describe diff fetch log ls-files merge notes pull rebase reflog remote reset rev-list rev-parse revert shortlog show status switch tag")
)

// printsFiles reports whether a command of git, from its sub-command on, may print or copy what files
// have.
func printsFiles(args []shell.Word) bool {
	if len(args) == 0 {
		return false
	}
	has := func(option *regexp.Regexp) bool { // also behind --, which may be the value of an option
		return slices.ContainsFunc(args[1:], func(w shell.Word) bool { return option.MatchString(w.Text) })
	}
	name, names, commits := args[0].Text, false, true
	for i, w := range args[1:] {
		if w.Text == "--" {
			break
		}
		isName := gitNames.MatchString(w.Text)
		names = names || isName && (i == 0 || beforeNames.MatchString(args[i].Text))
		commits = commits && w.Fixed && (isName || ofCommits.MatchString(w.Text))
	}
	switch name {
	case "diff", "show":
		return !names || has(gitPatch) || name == "show" && !commits
	case "cat-file":
		return len(args) < 2 || !slices.Contains([]string{"-t", "-s", "-e"}, args[1].Text)
	case "stash":
		name += " " + args[min(1, len(args)-1)].Text
	}
	return !args[0].Fixed || gitPrints[name] || gitLogs.MatchString(name) && has(gitPatch) || gitHunks.MatchString(name) && has(gitVerbose)
}
