package agentscope

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/shell"
)

// bash is a tool that runs a line of shell text from one of its arguments.
type bash struct{ Config }

type bashCall struct {
	err     error // the command or its folder cannot be read
	text    string
	tree    *tree
	line    *shell.Line
	places  places
	given   string // the folder that an argument names; agents differ in whether they obey it
	foreign bool   // given is a path of Windows
	// outside is set if the line may run outside the working directories, where the contents of
	// allow rules mean other files.
	outside bool

	once    sync.Once // guards what follows, for deny and ask rules
	isQuiet bool      // it is proven to change nothing
	reached linePaths
}

func (b bash) Name() string { return b.name(Bash) }

// Argument implements permission.ArgumentKind.
func (b bash) Argument() permission.Argument {
	return b.argument("command", "command", "description")
}

func (b bash) Prepare(c permission.Call) any {
	text, err := b.text(c, b.Argument().Name)
	p := &bashCall{err: err, text: text, tree: parseTree(text), places: b.places(c)}
	var elsewhere []string
	if p.places.cwd != p.places.dirs[0] {
		elsewhere = append(elsewhere, p.places.cwd)
	}
	for _, name := range permission.FolderArguments {
		given, err := b.text(c, name)
		switch folder := p.places.absolute(p.places.expandHome(given)); {
		case name == b.Argument().Name || given == "" && err == nil:
		case err != nil || p.given != "" && p.given != folder:
			p.err = cmp.Or(p.err, err, errFolders)
		case folder != p.places.cwd:
			p.given, elsewhere = folder, append(elsewhere, folder)
			p.foreign = p.foreign || paths.IsForeign(given)
		}
	}
	p.line = shell.ParseIn(text, elsewhere...)
	p.outside = slices.ContainsFunc(elsewhere, func(folder string) bool { return !p.places.isInside(folder) }) || p.foreign
	return p
}

var errFolders = errors.New("two arguments name different working folders")

// Line implements permission.ShellKind.
func (b bash) Line(c permission.Call) *shell.Line {
	p := b.prepared(c)
	if p.err != nil {
		return nil
	}
	return p.line
}

func (b bash) prepared(c permission.Call) *bashCall {
	if p, ok := c.Prepared.(*bashCall); ok {
		return p
	}
	return b.Prepare(c).(*bashCall)
}

// ReadOnly accepts upstream's answer only if the line is also proved to change nothing.
func (b bash) ReadOnly(c permission.Call) bool {
	p := b.prepared(c)
	return p.err == nil && p.text != "" && p.tree.dynamic == "" && p.tree.looksReadOnly() && p.line.ReadOnly()
}

// Check does the checks of upstream in their order. It sees more paths than upstream,
// and proves what may be edited without an approval request.
func (b bash) Check(c permission.Call) permission.ToolVerdict {
	p := b.prepared(c)
	switch {
	case p.err != nil:
		return malformedVerdict(p.err)
	case p.line.Hidden != nil:
		return permission.ToolVerdict{Answer: permission.CheckDeny, Step: StepHidden,
			Message: "the command has a character that cannot be seen: " + p.line.Hidden.String()}
	case p.text == "":
		return permission.ToolVerdict{}
	}
	if v, found := p.findDanger(); found {
		return v
	}
	if editsFreely(c.Mode) && p.given == "" && p.editsInside() && p.areProvenEdits() {
		return permission.ToolVerdict{Answer: permission.CheckAllow, Step: StepWorkingDirectory, Message: "all it changes is in a working directory"}
	}
	return permission.ToolVerdict{}
}

func (b *bashCall) findDanger() (permission.ToolVerdict, bool) {
	v, found := b.findKnownDanger()
	if b.tree.dynamic == "" {
		return v, found
	}
	dynamic := immuneVerdict(StepInjection, "the command has a "+b.tree.dynamic+": what it runs is not known before it runs")
	dynamic.Coverable = !found && !b.mayHideDanger()
	return dynamic, true
}

// mayHideDanger reports whether a part of the text, such as the value of a variable, is a
// sensitive path, or one whose removal would be a disaster in a line that removes files.
func (b *bashCall) mayHideDanger() bool {
	removes := slices.ContainsFunc(b.allCommands(), func(c shell.Command) bool { return removers[programOf(c)] || fileRemovers[programOf(c)] })
	return slices.ContainsFunc(strings.FieldsFunc(b.text, func(r rune) bool { return strings.ContainsRune(" \t\n;|&()<>\"'`=${},:", r) }), func(part string) bool {
		return b.places.isDangerous(part) || removes && b.places.isVital(part)
	})
}

func (b *bashCall) findKnownDanger() (permission.ToolVerdict, bool) {
	if t := dangerousText(b.text); t != "" {
		return immuneVerdict(StepDangerousCommand, "the command contains "+t), true
	}
	if why := sedFault(b.text); why != "" {
		return immuneVerdict(StepSed, "the command has "+why), true
	}
	for _, f := range b.tree.paths() {
		if b.places.isDangerous(f.path) {
			return immuneVerdict(StepDangerousPath, "the command works on the sensitive path "+f.path), true
		}
	}
	if r := b.tree.removal(b.places); r != "" {
		return immuneVerdict(StepDangerousRemoval, "the command removes "+r), true
	}
	return b.findUnseen()
}

// findUnseen finds what upstream always asks about, but does not see here. The approval
// request is then an ordinary one, but no allow rule answers it.
func (b *bashCall) findUnseen() (permission.ToolVerdict, bool) {
	for _, f := range b.fromFolders(b.unseenPaths()) {
		// A script of sed may begin with //, but is not a path.
		if b.places.isDangerous(f) || !strings.HasPrefix(f, "//") && b.places.readsAsDanger(f) {
			return uncoveredVerdict("the command works on the sensitive path " + f), true
		}
	}
	if r := b.findProvenRemoval(); r != "" {
		return uncoveredVerdict("the command removes " + r), true
	}
	if why := b.line.Unread(); why != nil {
		return uncoveredVerdict("a part of the command could not be read: " + why.Detail), true
	}
	return permission.ToolVerdict{}, false
}

// unseenPaths returns the paths of all commands, including those that quotes, wrappers
// or a program that upstream does not know hide from it.
func (b *bashCall) unseenPaths() []string {
	var out []string
	for _, c := range b.allCommands() {
		name := programOf(c)
		for _, r := range c.Redirects {
			out = append(out, trimQuotes(strings.TrimLeft(r, "0123456789<>&| \t")))
		}
		if !fileCommands[name] && !fileWriters[name] {
			continue
		}
		for _, w := range c.Argv[1:] {
			if !strings.HasPrefix(w.Text, "-") {
				out = append(out, trimQuotes(w.Text))
			} else if _, value, ok := strings.Cut(w.Text, "="); ok {
				out = append(out, value)
			}
		}
	}
	return out
}

// fileWriters are programs that write the files in their arguments, and that upstream
// does not know.
var fileWriters = setOf("tee install truncate unlink shred")

var fileRemovers = setOf("rm rmdir unlink shred")

func (b *bashCall) findProvenRemoval() string {
	for _, c := range b.allCommands() {
		if !fileRemovers[programOf(c)] {
			continue
		}
		isDeep := slices.ContainsFunc(c.Argv[1:], func(w shell.Word) bool { return deep.MatchString(w.Text) })
		for _, w := range c.Argv[1:] {
			if strings.HasPrefix(w.Text, "-") {
				continue
			}
			for _, f := range b.fromFolders([]string{w.Text}) {
				if b.places.isVital(f) || isDeep && b.places.holdsWorkingDir(f) {
					return f
				}
			}
		}
	}
	return ""
}

// fromFolders adds to relative paths their meaning in the folders that the line changes
// to: after cd /etc, x is /etc/x.
func (b *bashCall) fromFolders(paths []string) []string {
	if len(paths) == 0 {
		return paths
	}
	out := slices.Clone(paths)
	for _, folder := range b.line.RunsIn(b.places.cwd) {
		for _, f := range paths {
			if f != "" && f[0] != '/' && f[0] != '~' {
				out = append(out, folder+"/"+f)
			}
		}
	}
	return out
}

func (b *bashCall) allCommands() []shell.Command {
	return slices.Concat(b.line.Commands, b.line.Nested)
}

func programOf(c shell.Command) string {
	if len(c.Argv) == 0 || !c.Argv[0].Fixed {
		return ""
	}
	name := c.Argv[0].Text
	return name[strings.LastIndexByte(name, '/')+1:]
}

// Suggest offers the narrowest rule that covers this line. Upstream offers the first
// two words of each command with anything after them.
func (b bash) Suggest(c permission.Call) []message.PermissionRule {
	p := b.prepared(c)
	if p.err != nil {
		return nil
	}
	content := p.line.Offer()
	if _, danger := p.findDanger(); danger || content == "" || p.outside {
		return nil
	}
	return []message.PermissionRule{suggestRule(c, &content)}
}

// Compile compiles the content of a rule.
func (b bash) Compile(text string, behavior message.Behavior) (permission.Pattern, error) {
	pattern, err := shell.Compile(text)
	out := bashPattern{bash: b, content: compileContent(text), shell: pattern, allow: behavior == message.BehaviorAllow}
	if err != nil || out.allow || !homeWord.MatchString(text) {
		return out, err
	}
	if b.Home == "" {
		return nil, errNoHome
	}
	out.expanded, err = shell.Compile(homeWord.ReplaceAllString(text, "${1}"+strings.ReplaceAll(b.Home, "$", "$$")+"${2}"))
	return out, err
}

// homeWord matches a ~ that stands for the home folder in a command.
var homeWord = regexp.MustCompile(`(^|[\s=:'"])~(/|[\s:'"]|$)`)

// TrustOptions implements permission.OptionTruster.
func (b bashPattern) TrustOptions() permission.Pattern {
	b.shell, b.trusts = b.shell.TrustOptions(), true
	return b
}

// AddOptions implements permission.OptionTruster.
func (b bashPattern) AddOptions(words string) (permission.Pattern, error) {
	var err error
	b.shell, err = b.shell.AddOptions(words)
	return b, err
}

// Notice says where an allow rule covers less than in AgentScope.
func (b bashPattern) Notice() string {
	if !b.allow {
		return ""
	}
	var out []string
	if !b.content.prefix && b.content.whole == nil {
		out = append(out, "allows exactly this line; in AgentScope it allows every line that contains the text")
	}
	if b.shell.NamesFiles() {
		out = append(out, "each * means files, a host or a word, with options between them; in AgentScope it means any text")
	}
	if !b.trusts && b.namesUnknownProgram() {
		out = append(out, "what the options of the program do is not known, so that only the command without further arguments is allowed; "+
			"add options with those that are harmless, or trust_options: true if all of them are")
	}
	return strings.Join(out, "; ")
}

// namesUnknownProgram checks the words of the rule with one more word after them.
func (b bashPattern) namesUnknownProgram() bool {
	words := b.content.text
	if b.content.whole != nil {
		return false
	}
	cover := shell.Parse(words + " x").Cover([]*shell.Pattern{b.shell})
	return slices.ContainsFunc(cover.Commands, func(c shell.CommandCoverage) bool { return !c.Covered && c.Why.Code == shell.CodeNoTable })
}

type bashPattern struct {
	bash
	content content
	shell   *shell.Pattern
	// expanded has the home folder in place of ~; nil for an allow rule, and if there is no ~.
	expanded *shell.Pattern
	allow    bool
	trusts   bool
	ofPolicy bool // the rule is part of a policy, and is not AgentScope's
}

// OfPolicy implements permission.PolicyPattern: an allow rule also covers what
// AgentScope asks about, if every command of the line is covered.
func (b bashPattern) OfPolicy() permission.Pattern {
	b.ofPolicy = true
	return b
}

// Match is narrower than upstream's for an allow rule, which must also cover every
// command. It is wider for a deny or ask rule, which matches a line if it matches any
// command in it.
func (b bashPattern) Match(c permission.Call) (bool, error) {
	p := b.prepared(c)
	if p.err != nil {
		if !b.allow && b.content.match("") { // upstream reads it as an empty line
			return true, nil
		}
		return false, p.err
	}
	whole := b.content.match(p.text)
	switch {
	case b.allow && b.isEverything() && b.ofPolicy:
		return p.tree.dynamic == "" || p.line.NamesPrograms(), nil
	case b.allow:
		return (whole || b.ofPolicy) && (b.isEverything() || !p.outside && p.line.Covers([]*shell.Pattern{b.shell})), nil
	case whole || p.text == "":
		return whole, nil
	}
	ok, err := b.shell.Matches(p.line)
	if !ok && b.expanded != nil {
		also, bad := b.expanded.Matches(p.line)
		ok, err = also, cmp.Or(err, bad)
	}
	if ok {
		return true, nil
	}
	return false, err
}

// isEverything reports whether the rule is about all commands, like a rule without
// content.
func (b bashPattern) isEverything() bool {
	return b.content.whole != nil && strings.Trim(b.content.text, "*") == ""
}

// Explain shows the commands of the line as the rule sees them.
func (b bashPattern) Explain(c permission.Call) []permission.Piece {
	p := b.prepared(c)
	if p.err != nil || !b.allow {
		return nil
	}
	if p.outside && !b.isEverything() {
		return []permission.Piece{{Text: p.text, Why: "it runs outside the working folders: " + cmp.Or(p.given, p.places.cwd)}}
	}
	cover := p.line.Cover([]*shell.Pattern{b.shell})
	var out []permission.Piece
	for _, one := range cover.Commands {
		piece := permission.Piece{Text: one.Command.String(), Covered: one.Covered || b.isEverything()}
		switch {
		case b.isEverything():
		case !one.Covered:
			piece.Why = one.Why.String()
		case one.By < 0:
			piece.Why = "changes nothing and needs no rule"
		}
		out = append(out, piece)
	}
	if b.isEverything() {
		return out
	}
	for _, r := range cover.Reasons {
		out = append(out, permission.Piece{Text: p.text, Why: r.String()})
	}
	return out
}

// Covered implements permission.JointMatcher: the rules cover every command.
// AgentScope's rules count only if a rule matches the line as in upstream.
func (b bash) Covered(c permission.Call, patterns []permission.Pattern) ([]int, error) {
	p := b.prepared(c)
	if p.err != nil {
		return nil, p.err
	}
	var all, own []*shell.Pattern
	var at, ownAt []int
	whole := -1
	for i, q := range patterns {
		bp, ok := q.(bashPattern)
		if !ok {
			continue
		}
		all, at = append(all, bp.shell), append(at, i)
		if bp.ofPolicy {
			own, ownAt = append(own, bp.shell), append(ownAt, i)
		}
		if whole < 0 && bp.content.match(p.text) {
			whole = i
		}
	}
	if whole < 0 { // no rule of AgentScope is about such a line
		all, at = own, ownAt
	}
	if p.outside || !p.line.Covers(all) {
		return nil, nil
	}
	var by []int
	if whole >= 0 {
		by = append(by, whole)
	}
	for _, one := range p.line.Cover(all).Commands {
		if one.By >= 0 {
			by = append(by, at[one.By])
		}
	}
	slices.Sort(by)
	return slices.Compact(by), nil
}
