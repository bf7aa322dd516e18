package summary

import (
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
)

// The arguments by which a tool without a kind is understood.
var (
	commandNames = []string{"command", "cmd"}
	pathNames    = []string{"file_path", "path", "filename", "notebook_path"}
	urlNames     = []string{"url", "uri"}
	folderNames  = []string{"cwd", "workdir", "working_directory"}
	// contentNames are the long arguments of tools that write: their path says more.
	contentNames = []string{"content", "contents", "text", "old_string", "new_string", "edits", "new_source"}
)

// describe says what a call does by its tool's kind, or by names that everyone uses.
func describe(t Tool, tool string, args arguments) string {
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
	if line := commandLine(args, commandNames...); line != "" {
		return line
	}
	if _, url := args.text(urlNames...); strings.Contains(url, ":") {
		return fetchText(args, url)
	}
	if name, path := args.text(pathNames...); path != "" && slices.ContainsFunc(args, isContent) {
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

// commandLine is the line of a shell, with its folder and the switches that are on.
func commandLine(args arguments, names ...string) string {
	name, line := args.text(names...)
	for _, n := range names {
		if items, err := strictjson.Items(args.find(n)); line == "" && err == nil && len(items) > 0 {
			name, line = n, wordsOf(items)
		}
	}
	if line == "" {
		return ""
	}
	if _, folder := args.text(folderNames...); folder != "" {
		line += " (in " + folder + ")"
	}
	return line + switches(args, name)
}

// wordsOf joins a command that is given word by word. Of a shell with one line, it is the line.
func wordsOf(items []strictjson.Member) string {
	words := make([]string, len(items))
	for i, m := range items {
		words[i], _ = strictjson.Text(m.Value)
	}
	if len(words) == 3 && isShell(words[0]) && (words[1] == "-c" || words[1] == "-lc") {
		return unmark(words[2])
	}
	for i, w := range words {
		if w = unmark(w); w == "" || strings.ContainsAny(w, " \t\n'\"$&|;<>()*?") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words[i] = w
	}
	return strings.Join(words, " ")
}

func isShell(program string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "/bin/sh", "/bin/bash", "/usr/bin/bash"}, program)
}

// switches names the arguments that are true: they may change what the rest means.
func switches(args arguments, but string) string {
	var on []string
	for _, m := range args {
		if is, err := strictjson.Bool(m.Value); err == nil && is && m.Name != but {
			on = append(on, m.Name)
		}
	}
	if len(on) == 0 {
		return ""
	}
	return " (" + strings.Join(on, ", ") + ")"
}

// fileText says what is done to which file.
func fileText(kind, tool string, args arguments, name string) string {
	_, path := args.text(name)
	verb := tool
	switch kind {
	case "read":
		verb = "Read"
	case "write":
		verb = "Write"
	case "edit":
		verb = "Edit"
	case "glob", "grep":
		_, pattern := args.text("pattern")
		text := map[string]string{"glob": "Find files ", "grep": "Search "}[kind] + pattern
		if path != "" {
			text += " in " + path
		}
		return text
	}
	if path == "" {
		return listArguments(nil, tool, args)
	}
	text := verb + " " + path
	if _, content := args.text("content", "contents", "text", "new_source"); content != "" && content != redacted {
		text += " (" + count(strings.Count(strings.TrimSuffix(content, "\n"), "\n")+1, "line") + ")"
	}
	return text + switches(args, name)
}

// fetchText is the method and the address of a request.
func fetchText(args arguments, url string) string {
	method := "Fetch"
	if _, m := args.text("method", "http_method", "verb"); m != "" {
		method = strings.ToUpper(m)
	}
	return method + " " + url + switches(args, "")
}

// listArguments names the tool and its arguments: those that the schema requires, those
// that it declares, and the others in the order of the call.
func listArguments(s *permission.Schema, tool string, args arguments) string {
	sorted := slices.Clone(args)
	if order := s.Arguments(); len(order) > 0 {
		place := func(m strictjson.Member) int {
			if i := slices.Index(order, m.Name); i >= 0 {
				return i
			}
			return len(order)
		}
		slices.SortStableFunc(sorted, func(a, b strictjson.Member) int { return place(a) - place(b) })
	}
	var parts []string
	size := 0
	for _, m := range sorted {
		text := value(m.Value)
		if text == "" || text == "false" {
			continue
		}
		if text == "true" {
			text = m.Name
		} else {
			text = m.Name + " " + text
		}
		parts = append(parts, text)
		if size += len(text); size > 4*maxLine {
			break
		}
	}
	if len(parts) == 0 {
		return tool
	}
	return tool + " " + strings.Join(parts, ", ")
}

func itoa(n int) string { return strconv.Itoa(n) }
