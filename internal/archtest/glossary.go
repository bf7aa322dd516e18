package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Term is a name that the project uses for one thing everywhere.
type Term struct {
	Name    string
	Means   string
	Package string   // where it is defined
	Was     []string // words in identifiers and JSON members that it replaces
}

// Glossary has the names in the order in which a call meets them.
var Glossary = []Term{
	{"call", "one tool call with its state", "toolcall.Call", nil},
	{"phase", "where a call is, computed in one place: waiting, asking, ready, queued, running, retrying, blocked or finished", "toolcall.Phase", nil},
	{"policy, rule", "a set of rules, one rule; a bundle is a compiled policy", "permission.Bundle", nil},
	{"approval request", "what a person is asked; `request` on the wire", "toolcall.ApprovalRequest", []string{"question", "questions"}},
	{"requirement", "what a rule demands of approvers", "toolcall.Requirement", nil},
	{"response", "what a person decides: approve, edit, reject, respond, skip or delegate", "toolcall.Response", []string{"abstain", "abstains"}},
	{"respond", "a person supplies the tool's result; nothing runs", "toolcall.ResponseRespond", nil},
	{"standing approval", "a remembered rule with scope, end and uses", "toolcall.StandingApproval", nil},
	{"grant", "the signed permission to run one call once", "toolcall.Grant", nil},
	{"queue", "remote calls of one tool or route that wait for workers", "toolcall.Queue", []string{"lane", "lanes"}},
	{"task", "one item of a queue, handed to a worker", "toolcall.Task", nil},
	{"lease", "a worker's time-limited claim on a running call", "toolcall.StartReply", nil},
	{"blocked", "needs an operator: the outcome is unknown, the retries are exhausted or no worker takes it", "toolcall.Blocked", nil},
	{"resolve", "an operator states the outcome of a call whose outcome is unknown", "toolcall.ResolveRequest", nil},
	{"journal", "the stream that keeps everything", "bus/journal.Journal", nil},
	{"event record", "one entry of the journal that changes an entity", "toolcall.EventRecord", []string{"fact", "facts"}},
	{"entity", "what one compare-and-swap protects: a call, reply, session, standing approval or budget", "bus.Entity", nil},
	{"dead letter", "a message that was abandoned after its last retry", "toolcall.DeadLetter", []string{"bury", "buried", "dig"}},
	{"space", "one tenant: a journal with its engines, keys and people", "toolcall.SpaceID", nil},
}

// GlossaryPage returns the glossary as a page.
func GlossaryPage() string {
	var b strings.Builder
	b.WriteString("# Glossary\n\nFor everyone who reads or writes about askance: one name for each thing, in code, on the wire and on the screen. This page is generated from `internal/archtest/glossary.go`.\n\n| name | means | in code |\n|---|---|---|\n")
	for _, t := range Glossary {
		fmt.Fprintf(&b, "| %s | %s | `%s` |\n", t.Name, t.Means, t.Package)
	}
	return b.String()
}

var (
	jsonMember = regexp.MustCompile(`json:"([a-z_]+)`)
	nameWord   = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
)

// OldNames lists the identifiers and JSON members of a Go file that use a name
// which the glossary replaced.
func OldNames(root, file string) ([]string, error) {
	rel, err := filepath.Rel(root, file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	check := func(at token.Pos, name string) {
		for _, word := range nameWord.FindAllString(name, -1) {
			word = strings.ToLower(word)
			for _, t := range Glossary {
				if slices.Contains(t.Was, word) {
					found = append(found, fmt.Sprintf("%s:%d: %s: use %s", filepath.ToSlash(rel), set.Position(at).Line, name, t.Name))
				}
			}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			check(n.Pos(), n.Name)
		case *ast.Field:
			if n.Tag != nil {
				for _, m := range jsonMember.FindAllStringSubmatch(n.Tag.Value, -1) {
					check(n.Tag.Pos(), m[1])
				}
			}
		}
		return true
	})
	return found, nil
}
