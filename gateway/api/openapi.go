package api

import (
	"bytes"
	"cmp"
	_ "embed" // the OpenAPI document
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	operation "github.com/askance-dev/askance/message/api"
)

// openapi is generated from the operations and the types:
//
//	go test ./gateway/api -run TestDocument -update
//
//go:generate go test . -run TestDocument -update
//go:embed openapi.json
var openapi []byte

// anyVersion is the placeholder of the program's version in the file.
const anyVersion = `"version": "0.0.0"`

func documentOf(version string) ([]byte, error) {
	version = cmp.Or(version, "dev")
	v, err := json.Marshal(version)
	if err != nil {
		return nil, fmt.Errorf("encode the version as JSON: %w", err)
	}
	return bytes.Replace(openapi, []byte(anyVersion), append([]byte(`"version": `), v...), 1), nil
}

// The parts of the document that the page for people shows.
type (
	docFile struct {
		Info struct {
			Title       string `json:"title"`
			Version     string `json:"version"`
			Description string `json:"description"`
		} `json:"info"`
		Components struct {
			Schemas map[string]docSchema `json:"schemas"`
		} `json:"components"`
	}
	docSchema struct {
		Description string               `json:"description"`
		Type        any                  `json:"type"`
		Ref         string               `json:"$ref"`
		Enum        []any                `json:"enum"`
		Const       any                  `json:"const"`
		Items       *docSchema           `json:"items"`
		Properties  map[string]docSchema `json:"properties"`
		Required    []string             `json:"required"`
	}
	pageOp struct {
		ID, Method, Path, Summary, Doc, Roles string

		Params       []operation.Param
		Body, Answer string
		Stream       bool
	}
	pageType struct {
		Name, Doc string
		Members   []pageMember
	}
	pageMember struct {
		Name, Kind, Link, Doc string
		Required              bool
	}
	pageData struct {
		Title, Version, Doc string
		Ops                 []pageOp
		Types               []pageType
		Style               template.CSS
		Brand               template.HTML
	}
)

//go:embed docs.html
var docsHTML string

//go:embed docs.css
var docsCSS string

// segments splits a path into the parts between which a narrow page may break it.
func segments(path string) []string { return strings.SplitAfter(path, "/") }

var docsPage = template.Must(template.New("docs").Funcs(template.FuncMap{"segments": segments}).Parse(docsHTML))

// makePage makes the page for people from the document.
func makePage(ops []*op, spec []byte) ([]byte, error) {
	var d docFile
	if err := strictjson.UnmarshalOpen(spec, &d); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	data := pageData{Title: d.Info.Title, Version: d.Info.Version, Doc: d.Info.Description, Style: template.CSS(gateway.PageCSS + docsCSS), Brand: gateway.Brand} //nolint:gosec // our own file
	for _, o := range ops {
		p := pageOp{ID: o.ID, Method: o.Method, Path: o.Path, Summary: o.Summary, Doc: o.description(), Roles: gateway.RoleWords(o.roles), Params: append(slices.Clone(o.Params), asParam), Stream: o.Stream}
		if o.in != nil {
			p.Body = o.in.name()
		}
		if o.out != nil {
			p.Answer = typeName(o.out)
		}
		data.Ops = append(data.Ops, p)
	}
	for name, s := range d.Components.Schemas {
		t := pageType{Name: name, Doc: s.Description}
		if len(s.Enum) > 0 {
			t.Doc += " One of: " + joinValues(s.Enum) + "."
		}
		for member, m := range s.Properties {
			t.Members = append(t.Members, pageMember{Name: member, Kind: m.kind(), Link: m.link(), Doc: m.Description, Required: slices.Contains(s.Required, member)})
		}
		slices.SortFunc(t.Members, func(a, b pageMember) int { return strings.Compare(a.Name, b.Name) })
		data.Types = append(data.Types, t)
	}
	slices.SortFunc(data.Types, func(a, b pageType) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	if err := docsPage.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("write the page: %w", err)
	}
	return out.Bytes(), nil
}

// kind is a member's type for people.
func (s docSchema) kind() string {
	switch {
	case s.Items != nil:
		return "list of " + s.Items.kind()
	case s.Ref != "":
		return s.link()
	case s.Const != nil:
		return fmt.Sprintf("%q", s.Const)
	case len(s.Enum) > 0:
		return joinValues(s.Enum)
	case s.Type == nil:
		return "any JSON"
	}
	if kinds, ok := s.Type.([]any); ok {
		return strings.ReplaceAll(joinValues(kinds), ", ", " or ")
	}
	return fmt.Sprint(s.Type)
}

// link is the name of the type that a member or its elements refer to.
func (s docSchema) link() string {
	if s.Items != nil {
		return s.Items.link()
	}
	return strings.TrimPrefix(s.Ref, "#/components/schemas/")
}

func joinValues(list []any) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, ", ")
}
