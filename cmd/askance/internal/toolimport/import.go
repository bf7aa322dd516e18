// Package toolimport converts tool definitions from other formats to a tools file:
// the list of an MCP server, an array of tools for a model API, or an OpenAPI
// document.
//
//	found, err := toolimport.Read(data)
//	text, err := found.Write(toolimport.Options{Source: "tools.json", Placement: toolcall.PlaceRemote})
//
// Invariant: a definition is converted exactly or not at all. A hint of a source that
// would permit more becomes a comment, unless the operator trusts the source.
package toolimport

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// MaxBytes is the maximum size of a document.
const MaxBytes = 8 << 20

// Definition is one tool of a source.
type Definition struct {
	Name, Description string
	Schema            []byte   // JSON, as the source has it
	Origin            string   // where the tool is in the source
	Notes             []string // what a tools file cannot express
	Hash              string   // of the definition of an MCP tool; "" for others
	// The hints of the source; nil if it has none.
	ReadOnly, Destructive, Idempotent, OpenWorld *bool

	err error // why it cannot be converted
}

// Found is what a source contains.
type Found struct {
	Tools []Definition
	Notes []string // about parts of the source that are not tools
}

// Read reads a document in any of the supported formats.
func Read(data []byte) (*Found, error) {
	data, err := asJSON(data)
	if err != nil {
		return nil, err
	}
	if strictjson.KindOf(data) == "array" {
		return readList(data)
	}
	members, err := strictjson.Members(data)
	if err != nil {
		return nil, err
	}
	of := map[string][]byte{}
	for _, m := range members {
		of[m.Name] = m.Value
	}
	switch {
	case of["openapi"] != nil:
		return readOpenAPI(data)
	case of["swagger"] != nil:
		return nil, errors.New("the document is Swagger 2.0: convert it to OpenAPI 3 first")
	case of["tools"] != nil:
		return readToolsMember(members)
	case of["jsonrpc"] != nil && strictjson.KindOf(of["result"]) == "object":
		return Read(of["result"])
	}
	return nil, errors.New("the document has no tools: use an array of tools, an object with tools, or an OpenAPI 3 document")
}

// asJSON returns the document as valid JSON. YAML is for OpenAPI.
func asJSON(data []byte) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, errors.New("the document is empty")
	}
	if data[0] != '{' && data[0] != '[' {
		var doc any
		if err := textfile.DecodeYAML(data, &doc); err != nil {
			return nil, err
		}
		return strictjson.Marshal(doc)
	}
	return data, strictjson.Check(data, strictjson.MaxBytes(MaxBytes))
}

// readToolsMember reads an object whose member tools has the list.
func readToolsMember(members []strictjson.Member) (*Found, error) {
	var found *Found
	var notes []string
	var err error
	for _, m := range members {
		switch m.Name {
		case "tools":
			if found, err = readList(m.Value); err != nil {
				return nil, err
			}
		case "nextCursor":
			if s, _ := strictjson.Text(m.Value); s != "" {
				return nil, errors.New("the list has another page (nextCursor): import from the server, or join the pages")
			}
		case "resultType", "ttlMs", "cacheScope", "_meta": // of the message, not of the tools
		default:
			notes = append(notes, "ignored: "+m.Name)
		}
	}
	found.Notes = append(found.Notes, notes...)
	return found, nil
}

func readList(data []byte) (*Found, error) {
	items, err := strictjson.Items(data)
	if err != nil {
		return nil, fmt.Errorf("tools is not a list: %w", err)
	}
	found := &Found{}
	for i, item := range items {
		d, err := readDefinition(item.Value)
		place := fmt.Sprintf("tools[%d]", i)
		if hosted, ok := errors.AsType[*hostedError](err); ok {
			found.Notes = append(found.Notes, place+" "+hosted.Error())
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		d.Origin = place
		found.Tools = append(found.Tools, *d)
	}
	return found, nil
}

// Only keeps the tools with these names. A name that no tool has is an error.
func (f *Found) Only(names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(f.Tools, func(d Definition) bool { return d.Name == name }) {
			return fmt.Errorf("there is no tool %q", name)
		}
	}
	if len(names) > 0 {
		f.Tools = slices.DeleteFunc(f.Tools, func(d Definition) bool { return !slices.Contains(names, d.Name) })
	}
	return nil
}

// Options say how tools are written.
type Options struct {
	Source    string // for the first line of the file
	Placement toolcall.Placement
	Server    string // the name of the source in rules; "": none
	// Trust turns the hints of the source into settings.
	Trust bool
	// LeaveOut leaves out tools that cannot be converted, and lists them in the file.
	LeaveOut bool
}

// Write writes a tools file. It returns the tools that are left out, each with the
// reason. Without LeaveOut such a tool is an error.
func (f *Found) Write(o Options) (file []byte, leftOut []string, err error) {
	var kept []Definition
	seen := map[string]bool{}
	for _, d := range f.Tools {
		switch err := d.check(); {
		case err != nil:
			leftOut = append(leftOut, fmt.Sprintf("%s (%s): %v", shownName(d.Name), d.Origin, err))
		case seen[d.Name]:
			return nil, nil, fmt.Errorf("%s: there are two tools with the name %q: rename one at the source, or select others with --only", d.Origin, d.Name)
		default:
			seen[d.Name] = true
			kept = append(kept, d)
		}
	}
	switch {
	case len(leftOut) > 0 && !o.LeaveOut:
		return nil, nil, fmt.Errorf("%d of %d tools cannot be imported: %s. Correct the source, or pass --leave-out", len(leftOut), len(f.Tools), strings.Join(leftOut, "; "))
	case len(kept) == 0:
		return nil, leftOut, errors.New("there is no tool to import")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Imported by askance tools import from %s. Review it before use.\n", term.SafeLine(o.Source))
	for _, n := range f.Notes {
		writeComment(&b, "", n)
	}
	for _, n := range leftOut {
		writeComment(&b, "", "left out: "+n)
	}
	b.WriteString("version: 1\ntools:\n")
	for i := range kept {
		if err := kept[i].write(&b, o); err != nil {
			return nil, leftOut, fmt.Errorf("the tool %s: %w", shownName(kept[i].Name), err)
		}
	}
	return b.Bytes(), leftOut, checkFile(b.Bytes(), kept)
}

func shownName(name string) string {
	if name == "" {
		return "a tool without a name"
	}
	return term.SafeLine(name)
}

func (d *Definition) check() error {
	switch {
	case d.err != nil:
		return d.err
	case d.Name == "":
		return errors.New("it has no name")
	case len(d.Name) > toolcall.MaxIDBytes:
		return fmt.Errorf("its name has %d bytes, the limit is %d", len(d.Name), toolcall.MaxIDBytes)
	case strictjson.KindOf(d.Schema) != "object":
		return errors.New("its schema is not an object")
	}
	_, err := permission.CompileSchema(d.Schema)
	return err
}

// checkFile parses the file and compares it with the source.
func checkFile(file []byte, want []Definition) error {
	got, err := toolfile.Parse("the imported tools", file)
	if err != nil {
		return err
	}
	for i, d := range want {
		schema, err := permission.CompileSchema(got[i].Schema.JSON())
		if err != nil {
			return err
		}
		if !SameJSON(d.Schema, schema.JSON()) || got[i].Definition != d.Hash || got[i].Name != d.Name || got[i].Description != d.Description {
			return fmt.Errorf("the tool %s cannot be written exactly as YAML (%s): leave it out, or write its entry by hand", shownName(d.Name), d.Origin)
		}
	}
	return nil
}

// SameJSON reports whether two texts are the same JSON value.
func SameJSON(a, b []byte) bool { return jcs.Equal(a, b) }

func (d *Definition) write(b *bytes.Buffer, o Options) error {
	fmt.Fprintf(b, "  - name: %s\n", textfile.YAMLText(d.Name))
	for _, n := range d.Notes {
		writeComment(b, "    ", n)
	}
	if d.Description != "" {
		fmt.Fprintf(b, "    description: %s\n", textfile.YAMLText(d.Description))
	}
	if o.Server != "" {
		fmt.Fprintf(b, "    server: %s\n", textfile.YAMLText(o.Server))
	}
	fmt.Fprintf(b, "    placement: %s\n", o.Placement)
	if d.Hash != "" {
		fmt.Fprintf(b, "    definition: %s\n", d.Hash)
	}
	is := func(hint *bool, value bool) bool { return hint != nil && *hint == value }
	for _, h := range []struct {
		key   string
		hint  *bool
		risky bool // the value that permits more
		why   string
	}{
		{"read_only", d.ReadOnly, true, "it would allow calls that no rule matches; set it only if that is proven"},
		{"idempotent", d.Idempotent, true, "a lost call would run again; set it only if the tool honours idempotency keys"},
		{"destructive", d.Destructive, false, "remove destructive if that is proven"},
		{"open_world", d.OpenWorld, false, "remove open_world if that is proven"},
	} {
		switch {
		case h.key == "destructive" && o.Trust && is(d.ReadOnly, true): // MCP: the hint has no meaning for such a tool
		case is(h.hint, true) && (o.Trust || !h.risky):
			fmt.Fprintf(b, "    %s: true\n", h.key)
		case is(h.hint, true):
			fmt.Fprintf(b, "    # %s: true  # the source says so: %s\n", h.key, h.why)
		case is(h.hint, false) && !h.risky && !o.Trust:
			fmt.Fprintf(b, "    %s: true  # the source says false: %s\n", h.key, h.why)
		}
	}
	b.WriteString("    input_schema:")
	return textfile.WriteYAML(b, d.Schema, "      ", false, true)
}

func writeComment(b *bytes.Buffer, indent, text string) {
	fmt.Fprintf(b, "%s# %s\n", indent, term.Clip(term.SafeLine(text), 300))
}
