package agentscope

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/shell"
)

// This file determines which calls a rule about files is about, for all tools that reach files.

// Files implements permission.PathKind.
func (opaque) Files() permission.FileUse { return permission.FilesShown }

// CompilePath implements permission.PathKind. Nothing reads the lines, so each line may
// reach the file.
func (o opaque) CompilePath(content string, _ bool) (permission.Pattern, error) {
	return pathPattern{content: content, match: func(permission.Call) (bool, error) {
		return false, fmt.Errorf("%w: no rule can read the lines of %s", permission.ErrUnclear, o.kind)
	}}, nil
}

var (
	errNoHome    = errors.New("has ~, and the home folder of the tool is not known; write home: /home/NAME in the tools file, or the whole path")
	errOtherHome = errors.New("begins with the home folder of another user, which is not known; write the whole path")
)

// checkHome returns an error for a content whose home folder is not known, because the
// rule would never match.
func (c Config) checkHome(content string, behavior message.Behavior) error {
	switch {
	case isOtherHome(content) && behavior != message.BehaviorAllow:
		return errOtherHome
	case strings.HasPrefix(content, "~") && !isOtherHome(content) && c.Home == "":
		return errNoHome
	default:
		return nil
	}
}

// Files implements permission.PathKind.
func (f file) Files() permission.FileUse {
	switch f.kind {
	case Read:
		return permission.FilesRead
	case Edit:
		return permission.FilesShown
	default:
		return permission.FilesWritten
	}
}

// CompilePath implements permission.PathKind.
func (f file) CompilePath(content string, _ bool) (permission.Pattern, error) {
	return f.Compile(content, message.BehaviorDeny)
}

// Files implements permission.PathKind.
func (search) Files() permission.FileUse { return permission.FilesShown }

// CompilePath implements permission.PathKind.
func (s search) CompilePath(content string, _ bool) (permission.Pattern, error) {
	return s.Compile(content, message.BehaviorDeny)
}

// reaches reports whether a search certainly finds what a deny or ask rule is about. An
// error says that it may find it.
func (s search) reaches(content string, c permission.Call, folder, looked string) (bool, error) {
	at := s.places(c)
	if denied, err := at.isDenied(content, folder+"/\x01"); denied && err == nil { // all below is
		return true, nil
	}
	found := folder + "/*"
	if s.kind == Glob && looked != "" {
		found = widenGlob(pathBelow(folder, looked))
	}
	if at.mayMeet(content, found) {
		return false, fmt.Errorf("%w: the search in %s may find %s", permission.ErrUnclear, folder, content)
	}
	return false, nil
}

// widenGlob returns a pattern in which * is any text, as in contents, and which matches
// at least what a glob matches.
func widenGlob(glob string) string {
	if i := strings.IndexAny(glob, `[{\!@+(`); i >= 0 {
		glob = glob[:i] + "*"
	}
	return strings.ReplaceAll(glob, "**/", "*")
}

// mayMeet reports whether a content and a glob can match the same path, as read by any
// system that the tool may run on.
func (p places) mayMeet(content, glob string) bool {
	if _, known := shell.Follow(p.expandHome(glob), p.cwd); !known || p.meets(content, glob) {
		return true
	}
	if p.posix && !strings.HasPrefix(p.home, macHomes) {
		return false
	}
	all, err := p.folded()
	if err != nil {
		return true
	}
	content = p.expandHome(strings.ReplaceAll(content, `\`, "/"))
	glob = paths.FoldPattern(p.expandHome(strings.ReplaceAll(glob, `\`, "/")))
	return slices.ContainsFunc(contentSpellings(content), func(c string) bool {
		return all.meets(c, glob) || all.onMac().meets(macPath(c), macPath(glob))
	})
}

func (p places) meets(content, glob string) bool {
	abs, rel := p.spellings(glob)
	full := p.expandHome(content)
	clean := path.Clean(full)
	if strings.HasPrefix(clean, "/") {
		return anyPair(patternsMeet, abs, full, clean)
	}
	contents := []string{content}
	for _, d := range p.dirs {
		contents = append(contents, path.Clean("/"+d+"/"+content))
	}
	return anyPair(patternsMeet, abs, contents...) || anyPair(patternsMeet, rel, content, clean)
}

// linePaths are the paths that a line may reach.
type linePaths struct {
	named   []string // certainly named, as seen from every folder that the line changes to
	globs   []string // patterns and folders below which a program reads everything
	removed []string // folders that a program changes with everything in them
	folders []string // into which a program may write files
	unknown string   // a word whose value is known only when the line runs; "" if there is none
}

// Files implements permission.PathKind.
func (bash) Files() permission.FileUse { return permission.FilesShown }

// CompilePath implements permission.PathKind.
func (b bash) CompilePath(content string, reading bool) (permission.Pattern, error) {
	return linePattern{b, content, reading}, b.checkHome(content, message.BehaviorDeny)
}

type linePattern struct {
	bash
	content string
	reading bool
}

func (l linePattern) Match(c permission.Call) (bool, error) {
	p := l.prepared(c)
	if p.err != nil {
		return false, p.err
	}
	p.once.Do(func() { p.reached = p.paths() })
	found := p.reached
	for _, name := range found.named {
		denied, err := p.places.isDenied(l.content, name)
		if denied {
			return true, nil
		}
		if errors.Is(err, errOpenFile) || err != nil && (paths.IsForeign(name) || strings.Contains(name, "~")) { // other texts are not paths
			found.unknown = name
		}
	}
	globs, folders := found.globs, found.folders
	if l.reading {
		folders = nil
	} else {
		globs = slices.Concat(globs, found.removed)
	}
	for _, glob := range globs {
		if p.places.mayMeet(l.content, glob) {
			return false, fmt.Errorf("%w: %s may be %s", permission.ErrUnclear, glob, l.content)
		}
	}
	for _, f := range folders {
		if denied, _ := p.places.isDenied(l.content, f+"/\x01"); denied {
			return false, fmt.Errorf("%w: a file in %s may be %s", permission.ErrUnclear, f, l.content)
		}
	}
	if found.unknown != "" {
		return false, fmt.Errorf("%w: %s may be %s", permission.ErrUnclear, found.unknown, l.content)
	}
	return false, nil
}

// The rest of this file finds the files that code and other texts in a line may name.

var (
	// buildsNames matches what computes the name of a file in the source of a compiler.
	buildsNames = regexp.MustCompile(`#\s*define|##|\?\?|%(?:x?define|assign|str)|\.(?:macro|altmacro|irpc?|rept|set|equ|ds|de)\b|\\(?:csname|[ex]?def|let|string|[0-7xu*])|\^\^|&#|<!ENTITY|concat|[#$]\{`)
	// copiesInCode matches calls that copy or remove folders with everything in them.
	copiesInCode = regexp.MustCompile(`\b(?:copytree|make_archive|rmtree|cp(?:Sync|_rf?)|rm(?:Sync|_rf?)|rename(?:s|Sync)?|(?:shutil\.)?move|fs\.(?:cp|rm)|tar\w*\..*\.add)\s*\(`)
	// editors are programs in whose code a commandLetter stands directly before a name of a file.
	editors       = regexp.MustCompile(`^(vi|n?vim|r?view|ed|ex|sed|gsed|less)$`)
	commandLetter = regexp.MustCompile(`[eErRwW]`)
	// besideLetter matches that name.
	besideLetter = regexp.MustCompile(`^[^\s;{}'"]*`)
	// changesFolder matches a change of the local folder in the commands of a file transfer client.
	changesFolder = regexp.MustCompile(`(?i)\blcd\b`)
)

// addDocument adds the texts in a here-document that may be paths: a program may take them for names
// of files, or the line may run the file that it writes.
func (f *pathFinder) addDocument(text string) {
	left := 1 << 18                                                                      // of bytes and names, to bound the time
	names := append(inCode.Split(text, -1), inCode.Split(unquoted.Replace(text), -1)...) // a"b" may be one word
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		for ; name != ""; _, name, _ = strings.Cut(name, "/") { // a patch of a/b/x may change b/x or x
			if left -= 256 + len(name); left < 0 {
				f.unknown = "a file in a long here-document"
				return
			}
			f.addMaybe(name)
		}
	}
	if unclearNames.MatchString(text) || f.transfers && changesFolder.MatchString(text) {
		f.unknown = "a file in a here-document"
	}
	for _, program := range f.coders {
		if shell.OpensComputed(program, text) {
			f.unknown = "a file that code for " + program + " names"
		}
	}
}

// unclearNames matches octal escapes in a name of a patch.
var unclearNames = regexp.MustCompile(`(?mi)^[\sX]*(?:[-+*]{3}|diff|rename|copy|Index:).*"[^"\n]*\\[0-7]`)

// addCode adds texts that may be paths, if the program runs code.
func (f *pathFinder) addCode(program, code string) {
	if shell.RunsCode(program) {
		copies := copiesInCode.MatchString(code)
		for _, part := range inCode.Split(code, -1) {
			f.add(&f.named, part)
			if part != "" && copies {
				f.add(&f.globs, plainGlob.Replace(part)+"/*")
			}
		}
		for _, joined := range []string{shell.JoinTexts(code), unquoted.Replace(code)} {
			if joined != code {
				for _, part := range inCode.Split(joined, -1) {
					f.addMaybe(part)
				}
			}
		}
		if f.transfers && changesFolder.MatchString(code) {
			f.unknown = "a file in the folder of lcd"
		}
		if shell.OpensComputed(program, code) {
			f.unknown = "a file that the code of " + program + " names"
		}
	}
	if !editors.MatchString(program) {
		return
	}
	const maxLetters = 500 // of one text
	letters := commandLetter.FindAllStringIndex(code, maxLetters+1)
	if len(letters) > maxLetters {
		f.unknown = "a file in the code of " + program
	}
	for _, at := range letters {
		name := besideLetter.FindString(code[at[1]:])
		if strings.HasSuffix(program, "d") { // for ed and sed * is a letter of the name
			name = strings.ReplaceAll(name, "*", "\x01")
		}
		if name != "" {
			f.add(&f.globs, name)
		}
	}
}

// checkSource checks the input of a compiler, which may name files.
func (f *pathFinder) checkSource(c shell.Command, name string) {
	texts := c.Inputs()
	if c.IsPiped() && len(texts) == 0 || !areFixed(texts) || slices.ContainsFunc(texts, func(w shell.Word) bool { return buildsNames.MatchString(w.Text) }) {
		f.unknown = "a file in what " + name + " reads"
	}
}

func areFixed(words []shell.Word) bool {
	return !slices.ContainsFunc(words, func(w shell.Word) bool { return !w.Fixed })
}
