package hook

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/askance-dev/askance/gateway/agenthook"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/internal/strictjson"
)

// Settings say how an agent calls askance.
type Settings struct {
	Dialect   dialect.Dialect
	Program   string // the path of askance
	URL       string
	TokenFile string
	Timeout   time.Duration // the agent's
	Pass      bool
	Insecure  bool // the URL may lack TLS
	HTTP      bool // Claude Code posts its events itself, with the token of $ASKANCE_TOKEN
}

// agents say how each agent's program is called, where its hooks are, and which events they
// get. A variable can name another folder than the one in the home folder. The first event decides.
var agents = map[dialect.Dialect]struct {
	program, folder, file, variable string
	events                          []string
}{
	dialect.ClaudeCode: {"claude", ".claude", "settings.json", "CLAUDE_CONFIG_DIR", []string{"PreToolUse", "PostToolUse", "PostToolUseFailure"}},
	dialect.Codex:      {"codex", ".codex", "hooks.json", "CODEX_HOME", []string{"PreToolUse", "PermissionRequest", "PostToolUse"}},
	dialect.Gemini:     {"gemini", ".gemini", "settings.json", "", []string{"BeforeTool", "AfterTool"}},
}

// Events returns the hooks that the settings name. The first decides.
func Events(d dialect.Dialect) []string { return agents[d].events }

// File returns where the agent reads its hooks: those of the user, or of a project folder.
func File(d dialect.Dialect, project string) (string, error) {
	a := agents[d]
	if project != "" {
		return filepath.Join(project, a.folder, a.file), nil
	}
	if own := os.Getenv(a.variable); a.variable != "" && own != "" {
		return filepath.Join(own, a.file), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the settings of the agent: %w; pass --file", err)
	}
	return filepath.Join(home, a.folder, a.file), nil
}

// Command returns the command line of the hook, for a shell.
func (s Settings) Command() string {
	words := []string{s.Program, "hook", string(s.Dialect), "--url", s.URL}
	if s.TokenFile != "" {
		words = append(words, "--token-file", s.TokenFile)
	}
	words = append(words, "--timeout", s.Timeout.String())
	if s.Pass {
		words = append(words, "--on-allow", "pass")
	}
	if s.Insecure {
		words = append(words, "--url-insecure")
	}
	for i, w := range words {
		words[i] = spelling.ShellWord(w)
	}
	return strings.Join(words, " ")
}

type entry struct {
	Name      string            `json:"name,omitzero"`
	Type      string            `json:"type"`
	Command   string            `json:"command,omitzero"`
	URL       string            `json:"url,omitzero"`
	Headers   map[string]string `json:"headers,omitzero"`
	Variables []string          `json:"allowedEnvVars,omitzero"`
	Timeout   int64             `json:"timeout"`
	OnFailure string            `json:"onFailure,omitzero"`
}

type group struct {
	Matcher string  `json:"matcher"`
	Hooks   []entry `json:"hooks"`
}

func (s Settings) group(event string) group {
	e := entry{Type: "command", Command: s.Command(), Timeout: int64(s.Timeout.Seconds())}
	if s.HTTP {
		o := agenthook.Options{Hold: s.Timeout - dialect.Margin, Pass: s.Pass}
		e = entry{
			Type: "http", URL: strings.TrimSuffix(s.URL, "/") + agenthook.Path(s.Dialect) + "?" + o.Query().Encode(), Timeout: e.Timeout,
			Headers: map[string]string{"Authorization": "Bearer $ASKANCE_TOKEN"}, Variables: []string{"ASKANCE_TOKEN"},
		}
	}
	g := group{Matcher: "*"}
	switch {
	case s.Dialect == dialect.Gemini:
		e.Name, e.Timeout = "askance", s.Timeout.Milliseconds()
	case s.Dialect == dialect.Codex:
		g.Matcher = ""
	case event == "PreToolUse":
		e.OnFailure = "block"
	}
	g.Hooks = []entry{e}
	return g
}

// Install returns the text of a settings file with the hooks of s, which replace earlier ones.
func (s Settings) Install(text string) (string, error) {
	text, err := Uninstall(s.Dialect, text)
	if err != nil {
		return "", err
	}
	for _, event := range Events(s.Dialect) {
		item, err := strictjson.Marshal(s.group(event))
		if err != nil {
			return "", err
		}
		if text, err = appendHook(text, event, string(item)); err != nil {
			return "", err
		}
	}
	return text, nil
}

func appendHook(text, event, item string) (string, error) {
	for range 3 {
		d, err := parseDocument(text)
		if err != nil {
			return "", err
		}
		hooks := d.root.member("hooks")
		if hooks == nil {
			text = d.add(d.root, 1, `"hooks": {}`)
			continue
		}
		if d.clean[hooks.start] != '{' {
			return "", errors.New("its member hooks is not an object")
		}
		list := hooks.member(event)
		if list == nil {
			text = d.add(hooks, 2, fmt.Sprintf("%q: []", event))
			continue
		}
		if d.clean[list.start] != '[' {
			return "", fmt.Errorf("its member hooks.%s is not an array", event)
		}
		return d.add(list, 3, item), nil
	}
	return "", errors.New("its member hooks cannot be extended")
}

// Uninstall removes the hooks of askance, and lists that become empty and have no comment.
func Uninstall(d dialect.Dialect, text string) (string, error) {
	for {
		doc, err := parseDocument(text)
		if err != nil {
			return "", err
		}
		path := doc.ours(d, "")
		if path == nil {
			return text, nil
		}
		last := len(path) - 1
		if len(path[last-1].children) == 1 && !doc.hasComment(path[last-1], path[last]) && !doc.hasComment(path[last-2], path[last-1]) {
			last -= 2 // the group, whose matcher is useless without hooks
			for last > 1 && len(path[last-1].children) == 1 && !doc.hasComment(path[last-1], path[last]) {
				last--
			}
		}
		text = doc.remove(path[last-1], path[last])
	}
}

// ours returns the path from the root to the first hook of askance for an event, or for any
// event if it is ""; nil if there is none.
func (d *document) ours(dia dialect.Dialect, event string) []*node {
	hooks := d.root.member("hooks")
	if hooks == nil {
		return nil
	}
	for _, of := range hooks.children {
		if event != "" && of.name != event {
			continue
		}
		for _, item := range of.children {
			list := item.member("hooks")
			if list == nil {
				continue
			}
			for _, h := range list.children {
				if e, ok := d.read(h); ok && e.isOurs(dia) {
					return []*node{d.root, hooks, of, item, list, h}
				}
			}
		}
	}
	return nil
}

func (d *document) read(h *node) (e entry, ok bool) {
	err := strictjson.UnmarshalOpen([]byte(d.clean[h.start:h.end]), &e)
	return e, err == nil
}

// isOurs reports whether a hook calls askance for the dialect.
func (e entry) isOurs(d dialect.Dialect) bool {
	words := strings.Fields(e.Command)
	for i := 1; i+2 < len(words); i++ { // as Command writes it
		if words[i] == "hook" && words[i+1] == string(d) && words[i+2] == "--url" {
			return true
		}
	}
	return strings.Contains(e.URL, agenthook.Path(d))
}

// document is the text of a settings file: JSON that may have comments and trailing
// commas. Edits keep every byte that they do not concern.
type document struct {
	text  string
	clean string // text with spaces in the place of comments and trailing commas
	root  *node
}

// node is a value of a document. Objects and arrays have children.
type node struct {
	start, end int // of a child of an object: its value
	begin      int // of a child of an object: its name
	comma      int // where a comma follows the last child; 0: none does
	name       string
	children   []*node
}

// maxValues bounds lists and objects, because hujson reads each within the one around it.
const maxValues = 100_000

func parseDocument(text string) (*document, error) {
	if strings.TrimSpace(text) == "" {
		text = "{}\n"
	}
	if strings.Count(text, "[")+strings.Count(text, "{") > maxValues {
		return nil, fmt.Errorf("the file has more than %d lists and objects", maxValues)
	}
	v, err := hujson.Parse([]byte(text + "\n")) // a line comment may end the file
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	d := &document{text: text, root: nodeOf(&v)}
	v.Standardize()
	d.clean = v.String()[:len(text)]
	if err := strictjson.Check([]byte(d.clean)); err != nil {
		return nil, err
	}
	if d.clean[d.root.start] != '{' {
		return nil, errors.New("the file is not a JSON object")
	}
	return d, nil
}

func nodeOf(v *hujson.Value) *node {
	n := &node{start: v.StartOffset, end: v.EndOffset, begin: v.StartOffset}
	add := func(of *hujson.Value) *node {
		if n.comma = 0; of.AfterExtra != nil { // a comma follows, also if this is empty
			n.comma = of.EndOffset + len(of.AfterExtra)
		}
		child := nodeOf(of)
		n.children = append(n.children, child)
		return child
	}
	switch of := v.Value.(type) {
	case *hujson.Object:
		for i := range of.Members {
			m := &of.Members[i]
			child := add(&m.Value)
			child.begin, child.name = m.Name.StartOffset, m.Name.Value.(hujson.Literal).String()
		}
	case *hujson.Array:
		for i := range of.Elements {
			add(&of.Elements[i])
		}
	}
	return n
}

// member returns a member of an object; nil if there is none.
func (n *node) member(name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// add appends a child to an object or array. depth is how deep its lines are indented.
func (d *document) add(n *node, depth int, child string) string {
	end := n.end - 1 // the closing bracket
	body := strings.TrimRight(d.text[:end], " \t\r\n")
	line := "\n" + strings.Repeat("  ", depth) + child
	tail := "\n" + strings.Repeat("  ", depth-1) + d.text[end:]
	if len(n.children) == 0 {
		return body + line + tail
	}
	last := n.children[len(n.children)-1].end
	comma := ","
	if n.comma > 0 {
		comma = ""
	}
	return d.text[:last] + comma + body[last:] + line + tail
}

// hasComment reports whether there is a comment in a node, but outside of one of its children.
func (d *document) hasComment(n, child *node) bool {
	for i := n.start; i < n.end; i++ {
		if d.text[i] == '/' && d.clean[i] == ' ' && (i < child.begin || i >= child.end) {
			return true
		}
	}
	return false
}

// remove removes a child, with its comma and its line.
func (d *document) remove(n, child *node) string {
	from, to := child.begin, child.end
	rest := d.clean[to : n.end-1]
	if i := strings.IndexByte(rest, ','); i >= 0 && strings.TrimSpace(rest[:i]) == "" {
		to += i + 1
	} else if before := strings.TrimRight(d.clean[n.start+1:from], " \t\r\n"); strings.HasSuffix(before, ",") {
		from = n.start + len(before)                                                             // the comma before it
		return d.text[:from] + d.text[from+1:child.begin] + strings.TrimLeft(d.text[to:], " \t") // comments between stay
	}
	lead, after := strings.TrimRight(d.text[:from], " \t"), d.text[to:]
	if n.comma >= to && strings.TrimSpace(d.clean[to:n.comma]) == "" { // it has nothing to follow
		after = d.text[to:n.comma] + d.text[n.comma+1:]
	}
	if next := strings.TrimLeft(after, " \t\r"); strings.HasSuffix(lead, "\n") && strings.HasPrefix(next, "\n") {
		after = next[1:] // the line before keeps its end: it may be a comment
	}
	return lead + after
}
