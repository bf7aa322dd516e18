package summary

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
)

// The names of arguments that describe a call of a tool without a kind.
var (
	commandNames = []string{"command", "cmd"}
	pathNames    = []string{"file_path", "path", "filename", "notebook_path"}
	urlNames     = []string{"url", "uri"}
	methodNames  = []string{"method", "http_method", "verb"}
	// contentNames are long arguments of tools that write; the path says more.
	contentNames = []string{"content", "contents", "text", "old_string", "new_string", "edits", "new_source"}
	// idleNames are arguments that do not change what a command or a request does.
	idleNames = []string{"description", "timeout", "timeout_ms"}
)

const maxRest = maxLine / 3 // for the arguments after a command, a path or a URL

// describeCall says what a call does, using its tool's kind or well-known argument names.
func describeCall(t Tool, tool string, args arguments) string {
	argument := permission.Argument{}
	if k, ok := t.Kind.(permission.ArgumentKind); ok {
		argument = k.Argument()
	}
	switch argument.What {
	case "command":
		if line := commandLine(args, argument.Name); line != "" {
			return line
		}
	case "path":
		return fileText(kindName(t.Kind), tool, args, argument.Name)
	}
	if tool == "apply_patch" { // Codex names its patch input or command
		name, patch := args.firstText("input", "command")
		if files := patchedFiles(patch); len(files) > 0 && strings.HasSuffix(strings.TrimSpace(patch), "\n*** End Patch") {
			return withRest(tool+" "+listFiles(files), args, name)
		}
	}
	if line := commandLine(args, commandNames...); line != "" {
		return line
	}
	if name, url := args.firstText(urlNames...); strings.Contains(url, ":") {
		return fetchText(args, name, url)
	}
	if name, path := args.firstText(pathNames...); path != "" && slices.ContainsFunc(args, isContent) {
		return fileText("", tool, args, name)
	}
	return listArguments(t.Schema, tool, args)
}

func isContent(m strictjson.Member) bool { return slices.Contains(contentNames, m.Name) }

// kindName is the name of a kind without its configuration, such as "write".
func kindName(k permission.Kind) string {
	name, _, _ := strings.Cut(k.Name(), " ")
	return name[strings.LastIndexByte(name, '.')+1:]
}

// commandLine returns the command line, with its folder and the other arguments.
func commandLine(args arguments, names ...string) string {
	name, line := args.firstText(names...)
	for _, n := range names {
		if raw := args.find(n); line == "" && strictjson.KindOf(raw) == "array" {
			if items, err := strictjson.Items(raw); err == nil && len(items) > 0 {
				name, line = n, wordsOf(items)
			}
		}
	}
	if line == "" {
		return ""
	}
	inFolder, folder := args.firstText(permission.FolderArguments...)
	if folder != "" {
		line += " (in " + folder + ")"
	}
	return withRest(line, args, name, inFolder)
}

// wordsOf joins the words of a command. For a shell with one line, it returns the line.
func wordsOf(items []strictjson.Member) string {
	words := make([]string, len(items))
	for i, m := range items {
		words[i], _ = strictjson.Text(m.Value)
	}
	if len(words) == 3 && isShell(words[0]) && (words[1] == "-c" || words[1] == "-lc") {
		return shortenCommitments(words[2])
	}
	for i, w := range words {
		if w = shortenCommitments(w); w == "" || strings.ContainsAny(w, " \t\n'\"$&|;<>()*?") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words[i] = w
	}
	return strings.Join(words, " ")
}

func isShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "/bin/sh", "/bin/bash", "/usr/bin/bash"}, program)
}

// withRest appends the arguments that the text does not mention, because they may change its
// meaning, such as the input of a command. It shortens a long text to leave room for them.
func withRest(text string, args arguments, said ...string) string {
	rest := slices.DeleteFunc(slices.Clone(args), func(m strictjson.Member) bool {
		return slices.Contains(said, m.Name) || slices.Contains(idleNames, m.Name)
	})
	tail := strings.Join(namesAndValues(rest, sizeOnly), ", ") // sizes only: an environment or headers may hold secrets
	if tail == "" {
		return text
	}
	tail = " (" + shortenText(joinLines(tail), maxRest) + ")"
	return shortenText(joinLines(text), maxLine-utf8.RuneCountInString(tail)) + tail
}

// sizeOnly describes an object by its size, and any other value like describeValue.
func sizeOnly(raw []byte) string {
	if strictjson.KindOf(raw) != "object" {
		return describeValue(raw)
	}
	members, err := strictjson.Members(raw)
	if err != nil {
		return "?"
	}
	return count(len(members), "field")
}

// namesAndValues lists the arguments that have a value; for one that is true, only the name.
func namesAndValues(args arguments, value func([]byte) string) []string {
	var parts []string
	size := 0
	for _, m := range args {
		text := cmp.Or(patchText(m), value(m.Value))
		switch text {
		case "", "false":
			continue
		case "true":
			text = m.Name
		default:
			text = m.Name + " " + text
		}
		parts = append(parts, text)
		if size += len(text); size > 4*maxLine {
			break
		}
	}
	return parts
}

func fileText(kind, tool string, args arguments, name string) string {
	_, path := args.firstText(name)
	verb := tool
	switch kind {
	case "read":
		verb = "Read"
	case "write":
		verb = "Write"
	case "edit":
		verb = "Edit"
	case "glob", "grep":
		_, pattern := args.firstText("pattern")
		text := map[string]string{"glob": "Find files ", "grep": "Search "}[kind] + pattern
		if path != "" {
			text += " in " + path
		}
		return withRest(text, args, name, "pattern")
	}
	if path == "" {
		return listArguments(nil, tool, args)
	}
	text := verb + " " + path
	if _, content := args.firstText("content", "contents", "text", "new_source"); content != "" && content != redacted {
		text += " (" + count(strings.Count(strings.TrimSuffix(content, "\n"), "\n")+1, "line") + ")"
	}
	said := append([]string{name}, contentNames...)
	edits, _ := strictjson.Items(args.find("edits"))
	if files := filesOf(edits); slices.ContainsFunc(files, func(f string) bool { return f != path }) {
		said = slices.DeleteFunc(said, func(n string) bool { return n == "edits" })
	}
	return withRest(text, args, said...)
}

// fetchText describes a request by method and address, with its other arguments.
func fetchText(args arguments, name, url string) string {
	method := "Fetch"
	methodName, m := args.firstText(methodNames...)
	if m != "" {
		method = strings.ToUpper(m)
	}
	return withRest(method+" "+url, args, name, methodName)
}

// listArguments lists the tool and its arguments: first those that the schema requires, then
// those that it declares, the others in the order of the call, and last those that are hidden.
// It sorts args.
func listArguments(s *permission.Schema, tool string, args arguments) string {
	if order := s.Arguments(); len(order) > 0 {
		place := func(m strictjson.Member) int {
			if i := slices.Index(order, m.Name); i >= 0 {
				return i
			}
			return len(order)
		}
		slices.SortStableFunc(args, func(a, b strictjson.Member) int { return place(a) - place(b) })
	}
	hidden := func(m strictjson.Member) int { // last, because the end of the line may be cut
		if bytes.Contains(m.Value, []byte("redacted")) && describeValue(m.Value) == redacted {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(args, func(a, b strictjson.Member) int { return hidden(a) - hidden(b) })
	parts := namesAndValues(args, describeValue)
	if len(parts) == 0 {
		return tool
	}
	return tool + " " + strings.Join(parts, ", ")
}
