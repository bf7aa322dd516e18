// Package toolfile reads the YAML or JSON file that declares an engine's tools: version 1, and a
// list of tools with the keys of permission/TOOLS.md. Unknown and duplicate keys are refused; an
// error has file, line and column.
package toolfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/toolcall"
)

// Tool is one declared tool.
type Tool struct {
	engine.Tool
	// Command runs a local tool; empty if a Go program registers a handler.
	Command []string
	// Definition is the hash of an imported definition; "": none.
	Definition string
}

type entry struct {
	Name            string             `yaml:"name" doc:"The name that calls and rules use."`
	Description     string             `yaml:"description" doc:"For people and models."`
	Summary         string             `yaml:"summary" doc:"One line that says what a call does, with arguments in braces: Refund {cents} cents of order {order}. {a.b} is a member, {{ a brace. Without it, the kind and the arguments make the line."`
	Server          string             `yaml:"server" doc:"The MCP server or group that the tool comes from; rules for SERVER/* match it."`
	Kind            string             `yaml:"kind" doc:"Its arguments have a known meaning that rule_content can name; powershell, cmd, mcp and function take no rule_content."`
	Home            string             `yaml:"home" doc:"With a kind: the home folder of the user as whom it runs, which also tells whether it runs on Windows. A local tool has the engine's."`
	Argument        string             `yaml:"argument" doc:"With a kind: the argument that has the command or the path, if it is not command (bash), file_path (read, write, edit) or path (glob, grep). input_schema must declare it."`
	InputSchema     map[string]any     `yaml:"input_schema" doc:"JSON Schema of the arguments. A call that does not match it is never allowed without an approval."`
	Placement       toolcall.Placement `yaml:"placement" doc:"Who runs it: local is the engine (the default), remote are workers, external is the agent's own runtime."`
	Idempotent      bool               `yaml:"idempotent" doc:"A lost attempt is retried with the same key."`
	ConcurrencySafe bool               `yaml:"concurrency_safe" doc:"It runs at the same time as other safe calls of one proposal."`
	ReadOnly        bool               `yaml:"read_only" doc:"It changes nothing: its calls are allowed unless a rule denies or asks."`
	Destructive     bool               `yaml:"destructive" doc:"Rules see it as tool.annotations.destructive."`
	OpenWorld       bool               `yaml:"open_world" doc:"Rules see it as tool.annotations.open_world."`
	Lease           duration           `yaml:"lease" doc:"Silence after which the owner of an attempt counts as lost; 500ms or more."`
	Timeout         duration           `yaml:"timeout" doc:"Longest run of one attempt."`
	OfferTimeout    duration           `yaml:"offer_timeout" doc:"After this time, a task that no worker started is offered again."`
	QueueTimeout    duration           `yaml:"queue_timeout" doc:"After this time in the queue, a call needs an operator."`
	MaxAttempts     textfile.Integer   `yaml:"max_attempts" doc:"Attempts of an idempotent tool."`
	Backoff         duration           `yaml:"backoff" doc:"Pause before the second attempt; each later one is twice as long."`
	Definition      string             `yaml:"definition" doc:"Hash of the definition that askance tools import read from an MCP server. askance worker --mcp runs no tool whose definition has changed."`
	Command         []string           `yaml:"command" doc:"Program that runs a local tool, with its arguments."`
}

// duration is read as text, because the YAML library's own errors about times do not name the key.
type duration string

func (d duration) value(key string) (time.Duration, error) {
	if d == "" {
		return 0, nil
	}
	v, err := permission.ParseDuration(string(d))
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%s: %.40q is not a time of 0 or more, write for example 90s, 15m, 24h or 7d", key, string(d))
	}
	return v, nil
}

type file struct {
	Version textfile.Integer `yaml:"version"`
	Tools   []entry          `yaml:"tools"`
}

const kind = "tools file"

// Load reads a tools file.
func Load(path string) ([]Tool, error) {
	data, err := textfile.Read(kind, path, textfile.MaxBytes)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse reads the text of a tools file; name is for messages. Errors are
// *textfile.Error.
func Parse(name string, data []byte) ([]Tool, error) {
	fault := func(part string, err error) error {
		return &textfile.Error{Kind: kind, File: name, Part: part, Err: err}
	}
	var f file
	if err := textfile.DecodeYAML(data, &f, "input_schema"); err != nil {
		return nil, fault("", addHint(err))
	}
	if err := textfile.CheckVersion(f.Version); err != nil {
		return nil, fault("", err)
	}
	var tools []Tool
	seen := map[string]bool{}
	for i, e := range f.Tools {
		if e.Name == "" {
			return nil, fault("", addPlace(data, i, fmt.Errorf("tools[%d] has no name", i)))
		}
		if seen[e.Name] {
			return nil, fault("tool "+e.Name, addPlace(data, i, errors.New("is declared twice")))
		}
		seen[e.Name] = true
		t, err := e.tool()
		if err != nil {
			return nil, fault("tool "+e.Name, addPlace(data, i, err))
		}
		tools = append(tools, t)
	}
	return tools, nil
}

func (e entry) tool() (Tool, error) {
	t := Tool{Command: e.Command, Definition: e.Definition, Tool: engine.Tool{
		Tool: permission.Tool{
			Name: e.Name, Server: e.Server, ReadOnly: e.ReadOnly, Destructive: e.Destructive,
			Idempotent: e.Idempotent, OpenWorld: e.OpenWorld,
		},
		Description: e.Description, Summary: e.Summary, Placement: e.Placement, ConcurrencySafe: e.ConcurrencySafe,
		MaxAttempts: int(e.MaxAttempts),
	}}
	t.Placement = cmp.Or(t.Placement, toolcall.PlaceLocal)
	if err := e.check(t.Placement); err != nil {
		return t, err
	}
	if err := e.times(&t.Tool); err != nil {
		return t, err
	}
	if err := e.kind(&t.Tool); err != nil {
		return t, err
	}
	if e.InputSchema == nil {
		return t, e.finish(&t.Tool)
	}
	raw, err := strictjson.Marshal(e.InputSchema)
	if err != nil {
		return t, fmt.Errorf("input_schema is not JSON: %w", err)
	}
	if t.Schema, err = permission.CompileSchema(raw); err != nil {
		return t, fmt.Errorf("input_schema: %w", err)
	}
	return t, e.finish(&t.Tool)
}

// finish checks what depends on the schema.
func (e entry) finish(t *engine.Tool) error {
	if err := t.CheckKind(); err != nil {
		return err
	}
	return engine.CheckSummary(e.Summary, t.Schema)
}

func (e entry) check(p toolcall.Placement) error {
	switch p {
	case toolcall.PlaceLocal, toolcall.PlaceRemote, toolcall.PlaceExternal:
	default:
		return fmt.Errorf("placement is %q, use local, remote or external", p)
	}
	if len(e.Command) > 0 && p != toolcall.PlaceLocal {
		return fmt.Errorf("a %s tool has no command here: start it with askance worker --tool %s -- %s", p, spelling.ShellWord(e.Name), spelling.ShellWord(e.Command[0]))
	}
	if e.Definition != "" && !definitionHash.MatchString(e.Definition) {
		return errors.New("definition is not a hash of the form sha256:…: import the tool again")
	}
	if e.MaxAttempts < 0 {
		return errors.New("max_attempts is negative")
	}
	return nil
}

func (e entry) kind(t *engine.Tool) error {
	c := agentscope.Config{Home: e.Home, Argument: e.Argument}
	switch {
	case e.Kind == "" && e.Home != "":
		return errors.New("home is only for tools with a kind")
	case e.Kind == "" && e.Argument != "":
		return errors.New("argument is only for tools with a kind")
	case e.Kind == "":
		return nil
	}
	if t.Placement == toolcall.PlaceLocal {
		c.Links = permission.ResolveLinks // the tool follows the links of this machine
		if c.Home == "" {
			c.Home, _ = os.UserHomeDir() // unknown: then nothing below ~ counts as inside
		}
	}
	var err error
	if t.Kind, err = agentscope.New(e.Kind, c); err != nil {
		return fmt.Errorf("kind: %w", err)
	}
	if e.Kind == agentscope.Bash && otherShell.MatchString(e.Name) {
		return fmt.Errorf("kind: bash reads lines as a POSIX shell does, and %s does not; use powershell or cmd", e.Name)
	}
	return nil
}

var definitionHash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// otherShell matches the names of shells whose syntax is not that of bash.
var otherShell = regexp.MustCompile(`(?i)^cmd(\.exe)?$|(^|[^a-z])(powershell|pwsh)($|[^a-z])`)

func (e entry) times(t *engine.Tool) error {
	for _, d := range []struct {
		key  string
		text duration
		into *time.Duration
	}{
		{"lease", e.Lease, &t.Lease}, {"timeout", e.Timeout, &t.Timeout}, {"offer_timeout", e.OfferTimeout, &t.OfferTimeout},
		{"queue_timeout", e.QueueTimeout, &t.QueueTimeout}, {"backoff", e.Backoff, &t.Backoff},
	} {
		v, err := d.text.value(d.key)
		if err != nil {
			return err
		}
		*d.into = v
	}
	if err := engine.CheckLease(t.Lease); err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}

// otherKeys maps keys of other tool formats to ours.
var otherKeys = map[string]string{
	"schema": "input_schema", "inputSchema": "input_schema", "parameters": "input_schema", "args": "input_schema", "arguments": "input_schema",
	"annotations": "read_only, destructive, idempotent, open_world next to name", "readOnlyHint": "read_only", "readonly": "read_only",
	"destructiveHint": "destructive", "idempotentHint": "idempotent", "openWorldHint": "open_world", "mcp_server": "server", "type": "kind",
}

// addHint adds to the error about an unknown key which one may be meant.
func addHint(err error) error {
	f, ok := errors.AsType[*textfile.FaultError](err)
	switch {
	case !ok || f.Key == "":
	case f.Key == "name" || f.Key == "rules": // a key of the file, because a tool can have a name
		f.Hint = "this looks like a rule file, which is named as an argument, or with --policy"
	case f.Key == "compat":
		f.Hint = "askance always uses the strict reading of every kind (permission/agentscope/DEVIATIONS.md); remove the key"
	default:
		f.Hint = "the keys of a tool are " + strings.Join(toolKeys(), ", ")
		if meant := cmp.Or(append([]string{otherKeys[f.Key]}, spelling.Nearest(f.Key, toolKeys())...)...); meant != "" {
			f.Hint = "did you mean " + meant + "?"
		}
	}
	return err
}

func toolKeys() []string {
	var out []string
	for _, k := range keys() {
		out = append(out, k.name)
	}
	return out
}

var (
	firstWord     = regexp.MustCompile(`^[a-z_]+`)
	schemaPointer = regexp.MustCompile(`at (/[^ :]*): `)
)

// addPlace adds the place of an error in the file: that of the key with which the error
// begins, for a schema that of the member, else that of the tool.
func addPlace(data []byte, tool int, err error) error {
	path := fmt.Sprintf("$.tools[%d]", tool)
	f := &textfile.FaultError{Msg: err.Error(), Err: err}
	key := firstWord.FindString(f.Msg)
	if key == "input_schema" {
		if m := schemaPointer.FindStringSubmatch(f.Msg); m != nil {
			f.Line, f.Col = textfile.Place(data, path+".input_schema"+strings.ReplaceAll(m[1], "/", "."))
		}
	}
	for _, at := range []string{path + "." + key, path + ".name", path} {
		if f.Line > 0 {
			break
		}
		if at != path+"."+key || slices.Contains(toolKeys(), key) {
			f.Line, f.Col = textfile.Place(data, at)
		}
	}
	return f
}

// EditorSchema returns the JSON Schema of tools files (draft 7), for editors. It is made
// from the type that tools files are decoded into, without the relations between keys.
func EditorSchema() []byte {
	properties := map[string]any{}
	for _, k := range keys() {
		properties[k.name] = k.schema()
	}
	tool := map[string]any{"type": "object", "additionalProperties": false, "required": []string{"name"}, "properties": properties}
	s := map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "askance tools file",
		"type": "object", "additionalProperties": false, "required": []string{"version"},
		"properties": map[string]any{
			"version": map[string]any{"enum": []int{1}, "description": "Version of the format: 1."},
			"tools":   map[string]any{"type": "array", "items": tool, "description": "The tools. Names are unique."},
		},
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil // cannot happen: it has only strings and numbers
	}
	return out.Bytes()
}

type key struct {
	name, doc string
	field     reflect.Type
}

func keys() []key {
	var out []key
	for f := range reflect.TypeFor[entry]().Fields() {
		out = append(out, key{f.Tag.Get("yaml"), f.Tag.Get("doc"), f.Type})
	}
	return out
}

// words returns the values that a key can have; nil: any.
func (k key) words() []string {
	switch {
	case k.field == reflect.TypeFor[toolcall.Placement]():
		return []string{string(toolcall.PlaceLocal), string(toolcall.PlaceRemote), string(toolcall.PlaceExternal)}
	case k.name == "kind":
		return agentscope.Names()
	}
	return nil
}

func (k key) schema() map[string]any {
	s := map[string]any{"description": k.doc}
	switch {
	case k.field == reflect.TypeFor[duration]():
		s["type"], s["pattern"] = "string", permission.DurationPattern
	case k.field.Kind() == reflect.Bool:
		s["type"] = "boolean"
	case k.field.Kind() == reflect.Int:
		s["type"], s["minimum"] = "integer", 0
	case k.field.Kind() == reflect.Map:
		s["type"] = "object"
	case k.field.Kind() == reflect.Slice:
		s["type"], s["items"] = "array", map[string]any{"type": "string"}
	default:
		s["type"] = "string"
	}
	if words := k.words(); words != nil {
		s["enum"] = words
	}
	return s
}
