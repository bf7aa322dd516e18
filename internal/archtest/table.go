package archtest

import "strings"

// Module is the import path of the module.
const Module = "github.com/askance-dev/askance"

// Row says what the packages of one folder may import.
type Row struct {
	// Folder is below the module's root; "." means only the root package. The row applies to
	// all packages below it too, unless a longer one names them. "*test" stands for every
	// package whose name ends in test and that has no row.
	Folder string
	// Own are the folders of the module that it may import.
	Own []string
	// Public lets it import every package of the module outside internal/.
	Public bool
	// Libraries are the import paths outside the module that it may import, including all
	// packages below them.
	Libraries []string
	// Never are packages of the standard library that it must not import.
	Never []string
	// Outside marks code that stands for a user's code, which cannot import internal/.
	Outside bool
	// Proof marks code that exists for tests: only tests import it, and it may use what
	// tests may use.
	Proof bool
	// Why is the reason, shown in the document and in the failure text.
	Why string
}

// anyTest is the folder of the row for all packages whose name ends in test.
const anyTest = "*test"

// Table holds all rows.
type Table struct {
	Rows []Row
	// Shared are folders that every package may import unless Outside is set.
	Shared []string
	// TestLibraries are outside import paths that only tests may reach.
	TestLibraries []string
}

// noIO are the packages with which a pure package would do I/O.
var noIO = []string{"database/sql", "io/ioutil", "net", "net/http", "os", "os/exec", "os/signal", "syscall"}

// noSockets are the packages with which the engine would become an adapter.
var noSockets = []string{"database/sql", "net", "net/http", "os", "os/exec", "os/signal", "syscall"}

// Rules is the import table of the module.
func Rules() Table {
	return Table{
		Shared:        []string{"internal/strictjson", "internal/jcs"},
		TestLibraries: []string{"github.com/invopop/jsonschema", "pgregory.net/rapid", "github.com/google/go-cmp", "github.com/anishathalye/porcupine", "github.com/creack/pty", "github.com/charmbracelet/x/vt", "github.com/chromedp"},
		Rows:          append(core(), around()...),
	}
}

// core returns the rows of what decides: no sockets, no wiring.
func core() []Row {
	return []Row{
		{
			Folder:    ".",
			Own:       []string{"message", "message/api", "toolcall", "permission", "engine", "executor", "bus", "bus/keyfile", "bus/creds", "bus/embed", "bus/journal", "internal/plainfile", "internal/sleep"},
			Libraries: []string{"github.com/google/jsonschema-go", "github.com/nats-io/nats.go"},
			Why:       "the short way into a Go program: it joins engine, executor and bus, and makes schemas of Go types",
		},
		{
			Folder:    "message",
			Libraries: []string{"github.com/google/uuid"},
			Never:     noIO,
			Why:       "AgentScope's messages, blocks and events with their one codec: no I/O, and no dependency on the rest",
		},
		{
			Folder: "message/blockstream",
			Own:    []string{"message", "toolcall"},
			Never:  noIO,
			Why:    "the stream carries approval requests and responses, so its codec maps calls",
		},
		{
			Folder:    "message/v1",
			Own:       []string{"message", "toolcall"},
			Libraries: []string{"github.com/google/uuid"},
			Never:     noIO,
			Why:       "a response arrives as a message of the older format, so its codec maps responses",
		},
		{
			Folder: "message/blockstream/blocktest",
			Own:    []string{"message", "message/blockstream"},
			Proof:  true,
			Why:    "the client half of the content-block stream; only tests import it",
		},
		{
			Folder:    "message/proof",
			Own:       []string{"message", "toolcall"},
			Libraries: []string{"github.com/transparency-dev/merkle"},
			Never:     noIO,
			Why:       "an auditor can compute every proof of a journal: no I/O, no clock; the Merkle tree of RFC 6962 is a library",
		},
		{
			Folder: "message/api",
			Own:    []string{"message", "toolcall"},
			Never:  noIO,
			Why:    "the operations are declared once; every transport loops over their table",
		},
		{
			Folder:    "toolcall",
			Own:       []string{"message"},
			Libraries: []string{"github.com/looplab/fsm", "golang.org/x/text/unicode/norm"},
			Never:     noIO,
			Why:       "the state machine of a call: no I/O, no policy, no transport; the engine turns a decision into an event",
		},
		{
			Folder: "permission",
			Own:    []string{"message", "message/api", "toolcall", "permission/shell", "internal/plainfile", "internal/spelling"},
			Libraries: []string{
				"cel.dev/cel-go", "github.com/goccy/go-yaml", "github.com/santhosh-tekuri/jsonschema/v6",
				"golang.org/x/net/idna", "golang.org/x/text/cases", "golang.org/x/text/unicode/norm",
			},
			Never: []string{"net", "net/http", "os/exec"},
			Why:   "a decision depends only on the call and the rules; without an engine it can also judge a journal afterwards (message/api: the form in which it reports its status)",
		},
		{
			Folder:    "permission/shell",
			Libraries: []string{"mvdan.cc/sh/v3"},
			Never:     noIO,
			Why:       "it analyses a command line by its text alone: it starts no shell and reads no file",
		},
		{
			Folder:    "permission/agentscope",
			Own:       []string{"message", "toolcall", "permission", "permission/shell"},
			Libraries: []string{"mvdan.cc/sh/v3"},
			Never:     noIO,
			Why:       "it reads AgentScope's tools call by call; its configuration follows links",
		},
		{
			Folder: "engine/reviewers",
			Own:    []string{"message", "toolcall"},
			Never:  noSockets,
			Why:    "it counts responses from the journal's event records alone",
		},
		{
			Folder: "engine/internal/schedule",
			Own:    []string{"message", "toolcall"},
			Never:  noSockets,
			Why:    "timers know no journal: they only cause the engine to look",
		},
		{
			Folder: "engine/internal/activity",
			Own:    []string{"message", "toolcall"},
			Never:  noSockets,
			Why:    "it counts the journal's records for people; it reads no journal and decides nothing",
		},
		{
			Folder: "engine/internal/view",
			Own:    []string{"message", "toolcall", "engine/reviewers"},
			Never:  noSockets,
			Why:    "the in-memory projection gets records; it reads and decides nothing",
		},
		{
			Folder: "engine/internal/store",
			Own:    []string{"message", "toolcall", "engine/internal/view", "engine/internal/schedule"},
			Never:  noSockets,
			Why:    "only this package writes to the journal; packages above it decide the content of a record",
		},
		{
			Folder: "engine/internal/decide",
			Own:    []string{"message", "toolcall", "permission"},
			Never:  noIO,
			Why:    "a decision is pure: a snapshot and the policy's verdict go in, an event comes out",
		},
		{
			Folder: "engine/internal/standing",
			Own:    []string{"message", "toolcall", "permission", "engine/internal/decide", "engine/internal/store", "engine/internal/view", "internal/spelling"},
			Never:  noSockets,
			Why:    "a standing approval is an entity, and the policy judges each use",
		},
		{
			Folder: "engine/internal/budget",
			Own:    []string{"message", "toolcall", "engine/internal/store"},
			Never:  noSockets,
			Why:    "a budget is an entity; the policy says what a call claims, and this package takes it",
		},
		{
			Folder: "engine/internal/approve",
			Own:    []string{"message", "toolcall", "permission", "engine/reviewers", "engine/internal/decide", "engine/internal/standing", "engine/internal/store", "engine/internal/view"},
			Never:  noSockets,
			Why:    "it checks a response with the parts below it; it does not know the engine",
		},
		{
			Folder: "engine/internal/summary",
			Own:    []string{"toolcall", "permission"},
			Never:  noSockets,
			Why:    "it says in one line what a call would do, using only what people may see of it",
		},
		{
			Folder: "engine",
			Own:    []string{"engine/reviewers", "engine/internal/activity", "engine/internal/schedule", "engine/internal/view", "engine/internal/store", "engine/internal/decide", "engine/internal/summary", "engine/internal/budget", "engine/internal/standing", "engine/internal/approve", "message", "message/api", "message/proof", "toolcall", "permission", "internal/capacity", "internal/spelling"},
			Never:  noSockets,
			Why:    "it declares the interfaces that adapters satisfy, so it runs the same on memory and on NATS",
		},
		{
			Folder:    "internal/strictjson",
			Libraries: []string{"github.com/go-json-experiment/json"},
			Why:       "the only decoder of outside input",
		},
		{
			Folder:    "internal/jcs",
			Libraries: []string{"github.com/go-json-experiment/json"},
			Why:       "the only canonical form of what is hashed and signed",
		},
		{
			Folder: "internal/reveal",
			Never:  noIO,
			Why:    "every surface for people makes hostile text visible in the same way",
		},
		{
			Folder: "internal/plainfile",
			Never:  []string{"net", "net/http", "os/exec"},
			Why:    "every reader refuses a file of an operator that is not a regular one",
		},
		{
			Folder:    "internal/child",
			Libraries: []string{"golang.org/x/sys/unix"},
			Never:     []string{"net", "net/http"},
			Why:       "gateway, worker and executor start and end programs, with the processes that these start, in the same way",
		},
		{
			Folder: "internal/benchreport",
			Why:    "it measures processes and renders a page; no product package uses it",
		},
		{
			Folder: "internal/capacity",
			Own:    []string{"message/api"},
			Never:  noIO,
			Why:    "NATS and HTTP divide the engine's capacity by classes of operations, and the engine says when a request waits",
		},
		{
			Folder: "internal/linediff",
			Never:  noIO,
			Why:    "every surface for people shows an edit in the same way",
		},
		{
			Folder: "internal/spelling",
			Never:  noIO,
			Why:    "every surface that suggests a word or a command compares and quotes words in the same way",
		},
		{
			Folder: "internal/mcpresult",
			Never:  noIO,
			Why:    "gateway and worker take the same answers of MCP servers for results",
		},
		{
			Folder: "internal/sleep",
			Never:  noIO,
			Why:    "every wait ends with its context in the same way",
		},
		{
			Folder: "internal/asked",
			Own:    []string{"message", "toolcall", "internal/reveal", "internal/linediff"},
			Never:  noIO,
			Why:    "terminal and browser describe a request and its responses in the same words",
		},
	}
}

// around returns the rows of what connects the core with the world, and of what tests it.
func around() []Row {
	return []Row{
		{
			Folder:    "executor",
			Own:       []string{"message", "toolcall", "internal/child", "internal/sleep"},
			Libraries: []string{"golang.org/x/sys/unix"},
			Why:       "a worker is small: it verifies a grant and runs a tool, over a transport that it declares (x/sys: the sealed memory that a program reads its input from)",
		},
		{
			Folder: "executor/httpwork",
			Own:    []string{"message", "message/api", "toolcall", "internal/sleep", "internal/spelling"},
			Why:    "the worker protocol over HTTP with the standard library: a worker of it links neither NATS nor the gateway",
		},
		{
			Folder:    "bus",
			Own:       []string{"message", "toolcall", "message/api", "message/proof", "bus/internal", "bus/internal/jsapi", "internal/capacity", "internal/sleep"},
			Libraries: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nuid"},
			Why:       "what is asked over NATS, and who may ask it; it satisfies the interfaces of engine and executor without knowing either, and knows the journal only by an interface",
		},
		{
			Folder:    "bus/journal",
			Own:       []string{"message", "toolcall", "message/api", "message/proof", "bus", "bus/keyfile", "bus/internal", "bus/internal/archive", "bus/internal/jsapi", "internal/plainfile", "internal/sleep"},
			Libraries: []string{"github.com/nats-io/nats.go"},
			Why:       "what is stored on NATS, and how it is proved; it satisfies the journal that engine declares without knowing it",
		},
		{
			Folder:    "bus/internal/archive",
			Own:       []string{"toolcall", "message/proof"},
			Libraries: []string{"github.com/klauspost/compress"},
			Why:       "archived records are lines of JSON in zstd frames: it knows neither NATS nor where files are",
		},
		{
			Folder:    "bus/internal/jsapi",
			Own:       []string{"message"},
			Libraries: []string{"github.com/nats-io/nats.go"},
			Why:       "bus and its journal send requests to a NATS server, repeat them and word their errors in the same way",
		},
		{
			Folder:    "bus/internal",
			Own:       []string{"message", "bus/internal", "internal/plainfile", "internal/spelling"},
			Libraries: []string{"github.com/gofrs/flock"},
			Why:       "all packages of bus read and replace files of secrets, and word errors, in the same way",
		},
		{
			Folder: "bus/keyfile",
			Own:    []string{"message", "toolcall", "message/proof", "bus/internal"},
			Why:    "the keys of engines and approvers are files; they need no NATS",
		},
		{
			Folder:    "bus/creds",
			Own:       []string{"message", "toolcall", "bus", "bus/internal", "internal/plainfile"},
			Libraries: []string{"github.com/nats-io/jwt/v2", "github.com/nats-io/nkeys", "github.com/nats-io/nats-server/v2"},
			Why:       "logins carry the permissions of bus; a server, embedded or not, only checks them",
		},
		{
			Folder:    "bus/embed",
			Own:       []string{"message", "toolcall", "bus", "bus/creds", "bus/internal", "bus/journal"},
			Libraries: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "github.com/gofrs/flock"},
			Why:       "it runs the NATS server in the process; clients and workers do not link it (flock: two servers on one folder would damage the journal)",
		},
		{
			Folder: "gateway",
			Own:    []string{"message", "toolcall", "message/api", "message/blockstream", "message/v1", "engine", "gateway", "internal/capacity", "internal/child", "internal/asked", "internal/reveal", "internal/linediff", "internal/mcpresult", "internal/plainfile", "internal/sleep", "internal/spelling"},
			Libraries: []string{
				"github.com/coder/websocket", "github.com/coreos/go-oidc/v3", "github.com/go-jose/go-jose/v4", "golang.org/x/net/http/httpguts", "golang.org/x/oauth2", "golang.org/x/sys/unix", "golang.org/x/time/rate", "github.com/gofrs/flock",
				"github.com/google/uuid",
			},
			Why: "HTTP: each surface is one wire format over an engine; it decides nothing and knows neither NATS nor the policy",
		},
		{
			Folder: "cmd",
			Own:    []string{"internal/asked", "internal/child", "internal/reveal", "internal/linediff", "internal/mcpresult", "internal/plainfile", "internal/sleep", "internal/spelling"},
			Public: true,
			Libraries: []string{
				"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/charmbracelet/huh",
				"github.com/charmbracelet/lipgloss", "github.com/charmbracelet/bubbletea", "github.com/charmbracelet/bubbles",
				"github.com/charmbracelet/x/ansi", "github.com/prometheus/client_golang", "github.com/schollz/progressbar/v3", "github.com/knadh/koanf", "github.com/tailscale/hujson",
				"golang.org/x/term", "github.com/goccy/go-yaml", "github.com/google/uuid", "github.com/google/pprof/profile", "github.com/nats-io/nats.go", "golang.org/x/net/http/httpguts", "golang.org/x/net/netutil", "github.com/modelcontextprotocol/go-sdk",
				"go.opentelemetry.io/otel", "go.opentelemetry.io/proto/slim/otlp", "google.golang.org/protobuf/proto",
			},
			Why: "wiring: it joins the public packages and talks to people (nats.go: bench measures the bare connection; pprof: it reads its own profile; hujson: settings of agents have comments; go-sdk: import lists the tools of MCP servers)",
		},
		{
			Folder:    "examples",
			Public:    true,
			Outside:   true,
			Libraries: []string{"github.com/nats-io/nats.go"},
			Why:       "users copy examples, and cannot import internal/",
		},
		{
			Folder: "e2e",
			Public: true,
			Proof:  true,
			Why:    "the tests run what users run: real processes over the public packages",
		},
		{
			Folder: anyTest,
			Public: true,
			Proof:  true,
			Why:    "conformance suites and test servers; only tests import them",
		},
	}
}

// Row returns the row for a folder, and whether there is one.
func (t Table) Row(folder string) (Row, bool) {
	var best Row
	for _, r := range t.Rows {
		if r.Folder == folder {
			return r, true
		}
		if r.Folder == anyTest && strings.HasSuffix(folder, "test") {
			best = r
			continue
		}
		if best.Folder != anyTest && below(folder, r.Folder) && len(r.Folder) > len(best.Folder) {
			best = r
		}
	}
	return best, best.Folder != ""
}

// below reports whether path is root or below it. Only "." itself is below ".".
func below(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func anyBelow(path string, roots []string) bool {
	for _, r := range roots {
		if below(path, r) {
			return true
		}
	}
	return false
}
