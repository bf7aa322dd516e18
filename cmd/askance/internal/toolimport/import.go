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

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/strictjson"
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
		for _, t := range lexer.Tokenize(string(data)) {
			if t.Type == token.AliasType { // a few lines of aliases can expand to gigabytes
				return nil, fmt.Errorf("line %d has a YAML alias: replace it with the value, or convert the document to JSON", t.Position.Line)
			}
		}
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
