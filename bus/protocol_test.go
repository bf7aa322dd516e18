package bus_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/archtest"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

const protocolPage = "PROTOCOL.md"

var update = flag.Bool("update", false, "write the generated parts of PROTOCOL.md")

// The page describes the subjects, rights, operations, settings, codes and bodies of the code.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	source := messageSource(t)
	for _, block := range []struct{ name, want string }{
		{"subjects", subjectTable()},
		{"permissions", permissionTable()},
		{"operations", operationTable()},
		{"classes", classTable()},
		{"consumer", consumerTable(t)},
		{"stream", streamTable(t)},
		{"compact", compactRules(t)},
		{"codes", source.codes()},
		{"bodies", source.bodies(bodyRoots())},
	} {
		got, err := archtest.Block(text, block.name)
		if err != nil {
			t.Fatalf("%s: %v", protocolPage, err)
		}
		if got == block.want {
			continue
		}
		if !*update {
			t.Errorf("%s: the block %q is not what the code says; run: go test ./bus -run TestProtocolPage -update\ngot:\n%s\nwant:\n%s", protocolPage, block.name, got, block.want)
			continue
		}
		if text, err = archtest.WithBlock(text, block.name, block.want); err != nil {
			t.Fatal(err)
		}
	}
	if text == string(page) {
		return
	}
	if err := os.WriteFile(protocolPage, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// compactRules are those of the comment on the code that follows them.
func compactRules(t *testing.T) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../toolcall/derive.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && g.Doc != nil {
			_, rules, _ := strings.Cut(g.Doc.Text(), "computes this:\n")
			var b strings.Builder
			for line := range strings.Lines(rules) {
				b.WriteString(strings.TrimSpace(line) + "\n")
			}
			return b.String() + "\n"
		}
	}
	return ""
}

// Every link within the page has a heading to go to, and the documents that
// point to the page point to where it is.
func TestProtocolPageLinks(t *testing.T) {
	page, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			headings[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")] = true
		}
	}
	links := regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(string(page), -1)
	for _, link := range links {
		if !headings[link[1]] {
			t.Errorf("%s links to #%s, which has no heading", protocolPage, link[1])
		}
	}
	if len(links) < 20 {
		t.Errorf("%d links found", len(links))
	}
	for _, document := range []string{"../README.md", "../ARCHITECTURE.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "](bus/PROTOCOL.md)") {
			t.Errorf("%s does not link to bus/PROTOCOL.md", document)
		}
	}
}

// table is a Markdown table, with empty lines around it.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	b.WriteString("\n| " + strings.Join(head, " | ") + " |\n|" + strings.Repeat("---|", len(head)) + "\n")
	for _, r := range rows {
		b.WriteString("| " + strings.Join(r, " | ") + " |\n")
	}
	return b.String() + "\n"
}

func code(s string) string { return "`" + s + "`" }

func subjectTable() string {
	var rows [][]string
	for _, r := range bus.Table() {
		payload := r.Payload
		if _, ops := bus.Operations(r.Kind); len(ops) > 0 {
			payload += " and reply: " + joined(ops)
		}
		rows = append(rows, []string{code(r.Layout), r.Writer, r.Reader, payload, r.What})
	}
	return table([]string{"subject", "published by", "read by", "body", "what"}, rows)
}

func joined[S ~string](list []S) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}

func permissionTable() string {
	var rows [][]string
	lines := func(subjects []string) string {
		for i, s := range subjects {
			subjects[i] = code(s)
		}
		return strings.Join(subjects, "<br>")
	}
	for _, role := range []toolcall.Role{toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor, toolcall.RoleWorker} {
		p := bus.PermissionsFor("prod", toolcall.Principal{Role: role, Name: "ann"}, toolcall.Queue{Tool: "refund"})
		rows = append(rows, []string{string(role), lines(p.Publish), lines(p.Subscribe)})
	}
	p := bus.PermissionsFor("prod", toolcall.Principal{Role: toolcall.RoleWorker, Name: "ann"}, toolcall.Queue{Tool: "refund", Route: "exec.payments"})
	rows = append(rows, []string{"worker of the route", lines(p.Publish), lines(p.Subscribe)})
	return table([]string{"role", "publish", "subscribe"}, rows)
}

func operationTable() string {
	var rows [][]string
	name := func(t reflect.Type) string {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Name() == "" {
			return "none"
		}
		return "[" + t.Name() + "](#" + strings.ToLower(t.Name()) + ")"
	}
	for _, r := range bus.Table() {
		role, ops := bus.Operations(r.Kind)
		for _, op := range ops {
			req, rep := bus.OperationNamed(op).Types()
			rows = append(rows, []string{code(r.Layout), code(op), string(role), name(req), name(rep)})
		}
	}
	return table([]string{"subject", "op", "as", "body of the request", "body of the reply"}, rows)
}

func classTable() string {
	var rows [][]string
	limits := capacity.Default()
	for _, c := range api.Classes {
		var ops []string
		for _, op := range bus.AllOperations() {
			if op.Class == c {
				ops = append(ops, code(op.Name))
			}
		}
		run := strconv.Itoa(limits[c].Run)
		switch c {
		case api.ClassRead:
			run = "1 for each processor, at least 2"
		case api.ClassWait:
			run = "2 for each processor, at least 4"
		}
		rows = append(rows, []string{c.String(), strings.Join(ops, ", "), run, strconv.Itoa(limits[c].Stay), fmt.Sprintf("%d MiB", limits[c].Bytes>>20)})
	}
	return table([]string{"class", "operations", "run at once", "wait, run or rest", "bytes of these"}, rows)
}

// Exactly the operations that exist over NATS are served on the subjects of their roles.
func TestOperationsAreServed(t *testing.T) {
	served := map[string]bool{}
	for _, r := range bus.Table() {
		as, ops := bus.Operations(r.Kind)
		if (r.Payload == "request") != (as != "" && len(ops) > 0) {
			t.Errorf("%s: the requests %v are carried out as %q", r.Layout, ops, as)
		}
		for _, op := range ops {
			served[r.Layout+" "+op] = true
		}
	}
	kinds := map[string]string{
		"propose": "propose.<runtime>", "interrupt": "interrupt.<runtime>", "query": "query.<principal>", "audit": "audit.<auditor>", "decide": "decide.<approver>", "operate": "operate.<operator>",
	}
	n := 0
	for _, op := range append(api.Table(), bus.AllOperations()...) {
		for role, kind := range op.NATS {
			layout := kinds[kind]
			if role == toolcall.RoleWorker {
				layout = "work.<tool>.<worker>." + kind
			}
			if !served[layout+" "+op.Name] {
				t.Errorf("a %s cannot send %s on %s", role, op.Name, layout)
			}
			n++
		}
	}
	if n < 2*len(served) {
		t.Errorf("%d rows for %d operations of subjects", n, len(served))
	}
}

// settings is a table of the server's settings of a stream or consumer, without
// what the server adds.
func settings(t *testing.T, config any) string {
	t.Helper()
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := string(all[name])
		if name == "metadata" {
			value = ourMetadata(t, all[name])
		}
		value = strings.ReplaceAll(value, `\u003e`, ">")
		rows = append(rows, []string{code(name), code(value)})
	}
	return table([]string{"setting", "value"}, rows)
}

func ourMetadata(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var meta map[string]string
	if err := json.Unmarshal(raw, &meta); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(meta, func(k, _ string) bool { return strings.HasPrefix(k, "_nats.") })
	if _, ok := meta["askance.key"]; ok {
		meta["askance.key"] = "id of the engine keys"
	}
	b, err := json.Marshal(meta)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func streamTable(t *testing.T) string {
	b := bustest.New(t)
	b.Journal("prod")
	st, err := bustest.JetStream(t, b).Stream(t.Context(), bus.StreamName("prod"))
	if err != nil {
		t.Fatal(err)
	}
	return settings(t, st.CachedInfo().Config)
}

func consumerTable(t *testing.T) string {
	b := bustest.New(t)
	if err := b.Journal("prod").EnsureQueue(t.Context(), toolcall.Queue{Tool: "refund"}); err != nil {
		t.Fatal(err)
	}
	c, err := bustest.JetStream(t, b).Consumer(t.Context(), bus.StreamName("prod"), bus.ConsumerName(toolcall.Queue{Tool: "refund"}))
	if err != nil {
		t.Fatal(err)
	}
	return settings(t, c.CachedInfo().Config)
}

// bodyRoots returns the types that are complete message bodies.
func bodyRoots() []string {
	var roots []string
	for _, r := range bus.Table() {
		_, ops := bus.Operations(r.Kind)
		for _, op := range ops {
			req, rep := bus.OperationNamed(op).Types()
			roots = append(roots, fmt.Sprint(req), fmt.Sprint(rep))
		}
	}
	roots = append(roots, "toolcall.EventRecord", "proof.Sealed", "bus.Hint", "bus.Presence", "message.Error")
	for i, r := range roots {
		roots[i] = r[strings.LastIndexByte(r, '.')+1:]
	}
	return roots
}
