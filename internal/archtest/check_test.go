package archtest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/archtest"
)

const own = archtest.Module + "/"

// Invented imports: if the checker did not refuse the wrong ones, its silence about the real ones
// would mean nothing.
func TestCheck(t *testing.T) {
	const (
		code     = archtest.Code
		inside   = archtest.Test
		external = archtest.ExternalTest
	)
	tests := []struct {
		name   string
		from   string
		to     string
		kind   archtest.Kind
		refuse string // a part of the failure text, or "" if the import is allowed
	}{
		{"a lower package", "engine", own + "message", code, ""},
		{"itself, from an external test", "engine", own + "engine", external, ""},
		{"a package below the same row", "message", own + "message/agui", code, ""},
		{"the standard library", "engine", "log/slog", code, ""},
		{"a listed library", "permission", "cel.dev/cel-go/common/types", code, ""},
		{"shared by all", "executor", own + "internal/strictjson", code, ""},
		{"wiring", "cmd/askance", own + "bus", code, ""},
		{"an example", "examples/embedded", own + "engine", code, ""},
		{"the root", ".", own + "engine", code, ""},

		{"an adapter from the engine", "engine", own + "bus", code, "it declares the interfaces that adapters satisfy"},
		{"an adapter from a test inside the engine", "engine", own + "bus", inside, "engine/x.go imports bus"},
		{"an adapter from an external test", "engine", own + "bus", external, ""},
		{"the engine from the policy", "permission", own + "engine", code, "without an engine it can also judge"},
		{"the policy from the machine", "toolcall", own + "permission", code, "the state machine of a call"},
		{"the engine from an adapter", "bus", own + "engine", code, "without knowing either"},
		{"upwards", "message", own + "toolcall", code, "no dependency on the rest"},
		{"a surface from the root", ".", own + "gateway", code, "the short way into a Go program"},
		{"the root from below", "message", archtest.Module, code, "no dependency on the rest"},

		{"an unlisted library", "engine", "github.com/google/uuid", code, "third party: none"},
		{"a library with the same prefix", "permission", "cel.dev/cel-gopher", code, "cel.dev/cel-go"},
		{"a library of another row", "message", "github.com/looplab/fsm", code, "google/uuid"},
		{"a library of another row in a test inside", "message", "github.com/looplab/fsm", inside, "google/uuid"},
		{"a library of another row in an external test", "engine", "github.com/nats-io/nats.go", external, ""},
		{"a library of no row in an external test", "engine", "github.com/stretchr/testify/assert", external, "third party: none"},
		{"a second decoder", "message", "github.com/go-json-experiment/json", code, "google/uuid"},

		{"a test library in a test", "engine", "pgregory.net/rapid", inside, ""},
		{"a test library in code", "engine", "pgregory.net/rapid", code, "third party: none"},
		{"test support in a test", "bus", own + "internal/bustest", external, ""},
		{"test support in code", "bus", own + "internal/bustest", code, "without knowing either"},
		{"test support in test support", "executor/executortest", own + "internal/bustest", code, ""},
		{"a test library in test support", "executor/executortest", "github.com/google/go-cmp/cmp", code, ""},
		{"a server in test support", "internal/bustest", "github.com/nats-io/nats-server/v2/server", code, ""},
		{"a conformance suite in wiring", "cmd/askance", own + "executor/executortest", code, "wiring"},
		{"the proof in wiring", "cmd/askance", own + "e2e", code, "wiring"},

		{"internal from an example", "examples/embedded", own + "internal/strictjson", code, "users copy examples, and cannot import internal/"},
		{"the client half of a codec in a test", "gateway/blocks", own + "message/blockstream/blocktest", external, ""},
		{"the client half of a codec in code", "gateway/blocks", own + "message/blockstream/blocktest", code, "decides nothing"},
		{"internal from an example's test", "examples/embedded", own + "internal/bustest", external, "users copy examples, and cannot import internal/"},
		{"internal from wiring", "cmd/askance", own + "internal/archive", code, "wiring"},

		{"the network from a codec", "message", "net/http", code, "never"},
		{"addresses from a codec", "message", "net/netip", code, ""},
		{"files from the machine", "toolcall", "os", code, "never"},
		{"files from the machine's tests", "toolcall", "os", inside, ""},
		{"sockets from the engine", "engine", "net", code, "never"},

		{"a folder without a row", "util", "fmt", code, "folder util has no row"},
		{"from a folder without a row", "messages", "fmt", code, "folder messages has no row"},
		{"to a folder without a row", "cmd/askance", own + "util", code, "wiring"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := archtest.Rules().Check(archtest.Import{From: tt.from, To: tt.to, Kind: tt.kind, File: tt.from + "/x.go"})
			switch {
			case tt.refuse == "" && err != nil:
				t.Errorf("Check(%s imports %s) = %v, want nil", tt.from, tt.to, err)
			case tt.refuse != "" && (!errors.Is(err, archtest.ErrImport) || !strings.Contains(err.Error(), tt.refuse)):
				t.Errorf("Check(%s imports %s) = %v, want a refusal with %q", tt.from, tt.to, err, tt.refuse)
			}
		})
	}
}

func TestTestOnly(t *testing.T) {
	for path, want := range map[string]bool{
		"testing":                            true,
		"testing/synctest":                   true,
		"net/http/httptest":                  true,
		"pgregory.net/rapid":                 true,
		"github.com/google/go-cmp/cmp":       true,
		own + "internal/bustest":             true,
		own + "e2e":                          true,
		own + "engine":                       false,
		"internal/testlog":                   false,
		"net/http":                           false,
		"github.com/google/uuid":             false,
		"github.com/nats-io/nats.go/testing": false,
	} {
		if got := archtest.Rules().TestOnly(path); got != want {
			t.Errorf("TestOnly(%s) = %t, want %t", path, got, want)
		}
	}
}

func TestReach(t *testing.T) {
	g := archtest.Graph{
		"a":    {"b", "c"},
		"b":    {"d", "a"},
		"c":    {"e"},
		"d":    {"e"},
		"e":    {"bad"},
		"free": {"c2"},
		"c2":   {"free"},
	}
	bad := func(p string) bool { return p == "bad" }
	if got, want := archtest.Reach(g, "a", bad), []string{"a", "c", "e", "bad"}; !slices.Equal(got, want) {
		t.Errorf("Reach = %v, want %v", got, want)
	}
	if got := archtest.Reach(g, "free", bad); got != nil {
		t.Errorf("Reach = %v, want nothing", got)
	}
}

func TestBlock(t *testing.T) {
	const doc = "# A\n<!-- x:begin -->\nold\n<!-- x:end -->\ntail\n"
	if got, err := archtest.Block(doc, "x"); err != nil || got != "old\n" {
		t.Errorf("Block = %q, %v, want %q", got, err, "old\n")
	}
	got, err := archtest.WithBlock(doc, "x", "new\n")
	if want := strings.Replace(doc, "old", "new", 1); err != nil || got != want {
		t.Errorf("WithBlock = %q, %v, want %q", got, err, want)
	}
	for _, broken := range []string{
		"",
		"<!-- x:begin -->\nno end",
		"<!-- x:end -->\n<!-- x:begin -->\n",
		doc + doc,
	} {
		if _, err := archtest.Block(broken, "x"); !errors.Is(err, archtest.ErrBlock) {
			t.Errorf("Block(%q) = %v, want %v", broken, err, archtest.ErrBlock)
		}
	}
}
