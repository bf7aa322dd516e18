package engine_test

import (
	"context"
	"crypto/ed25519"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/archtest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

var update = flag.Bool("update", false, "write the files of a call's life into ARCHITECTURE.md")

// mostFilesOfResponse bounds how many files a reader opens to follow a response.
const mostFilesOfResponse = 8

// ARCHITECTURE.md lists the files through which a call passes: those on the stack when the
// engine calls its journal, policy, directory or signer.
func TestFilesOfACall(t *testing.T) {
	tr := &tracer{}
	bundle, err := permission.Compile(permission.Policy{Rules: []permission.Rule{{
		Name: "ask", Tools: []string{"*"}, Behavior: message.BehaviorAsk,
		Approvers: permission.Approvers{Groups: []string{"ops"}},
	}}}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		t.Fatal(err)
	}
	tools := []engine.Tool{{Tool: permission.Tool{Name: "t"}, ConcurrencySafe: true, Placement: toolcall.PlaceRemote}}
	e, err := engine.New("default", tracedJournal{engine.NewMemory(), tr}, tracedPolicy{bundle, tr}, tools, engine.WithDirectory(tr), engine.WithSigner(newTracedSigner(t, tr)))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	bot, ann := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}), e.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
	worker := e.Worker(toolcall.Principal{Role: toolcall.RoleWorker, Name: "wk"}, toolcall.Queue{Tool: "t"})
	var picture strings.Builder
	picture.WriteString("```mermaid\nflowchart LR\n")
	var c *toolcall.Call
	var grant *toolcall.Grant
	for _, step := range []struct {
		name string
		take func() error
	}{
		{"propose", func() error {
			rep, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{}`}}})
			if err == nil {
				c = rep.Calls[0]
			}
			return err
		}},
		{"response", func() (err error) {
			if c, err = ann.SubmitResponse(t.Context(), toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove}); err == nil {
				grant = c.Attempt.Grant
			}
			return err
		}},
		{"start", func() error {
			_, err := worker.Start(t.Context(), toolcall.StartRequest{Key: c.Key, Attempt: 1, Claim: "claim", Nonce: grant.Nonce})
			return err
		}},
		{"result", func() error {
			_, err := worker.Result(t.Context(), toolcall.ResultRequest{Key: c.Key, Attempt: 1, Claim: "claim", Result: message.ToolResultBlock{ID: "c", Name: "t", Output: message.Content{Text: "done"}, State: message.ToolResultSuccess}})
			return err
		}},
	} {
		files, err := tr.trace(step.take)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		fmt.Fprintf(&picture, "    subgraph %s\n", step.name)
		for i, f := range files {
			fmt.Fprintf(&picture, "    %s%d[%s]\n", step.name, i, f)
			if i > 0 {
				fmt.Fprintf(&picture, "    %[1]s%[2]d --> %[1]s%[3]d\n", step.name, i-1, i)
			}
		}
		picture.WriteString("    end\n")
		if step.name == "response" && len(files) > mostFilesOfResponse {
			t.Errorf("a response enters %d files, want at most %d: %q", len(files), mostFilesOfResponse, files)
		}
	}
	picture.WriteString("```\n")
	wantBlock(t, "../ARCHITECTURE.md", "files", picture.String())
}

func wantBlock(t *testing.T, path, block, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		next, err := archtest.WithBlock(string(text), block, want)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(next), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := archtest.Block(string(text), block); err != nil || got != want {
		t.Errorf("%s has other files, %v; run: go test ./engine -run TestFilesOfACall -update\n%s", path, err, want)
	}
}

// tracer notes the files of this package and of those below it that are on the stack of the
// traced goroutine when the engine calls a part outside it.
type tracer struct {
	mu    sync.Mutex
	on    bool
	files []string
}

func (tr *tracer) trace(step func() error) ([]string, error) {
	tr.mu.Lock()
	tr.on, tr.files = true, nil
	tr.mu.Unlock()
	err := step()
	tr.stop()
	return tr.files, err
}

func (tr *tracer) stop() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.on = false
}

// folder is this package's folder as the compiler writes it.
var folder = func() string {
	_, file, _, _ := runtime.Caller(0)
	return strings.TrimSuffix(file, "files_test.go")
}()

// note is called by the parts outside the engine.
func (tr *tracer) note() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !tr.on {
		return
	}
	pcs := make([]uintptr, 100)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var stack []string
	traced := false
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		traced = traced || strings.HasSuffix(f.Function, ".(*tracer).trace")
		if file, ok := strings.CutPrefix(f.File, folder); ok && !strings.HasSuffix(file, "_test.go") {
			stack = append(stack, file)
		}
	}
	if !traced { // the watch or a background step
		return
	}
	for _, f := range slices.Backward(stack) {
		if !slices.Contains(tr.files, f) && f != "memory.go" {
			tr.files = append(tr.files, f)
		}
	}
}

// Groups implements engine.Directory.
func (tr *tracer) Groups(context.Context, toolcall.Principal) (engine.Membership, error) {
	tr.note()
	return engine.Membership{Groups: []string{"ops"}, Source: "test"}, nil
}

type tracedJournal struct {
	engine.Journal
	tr *tracer
}

func (j tracedJournal) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	j.tr.note()
	if rec.Call != nil { // what happens after the record does not lead to it
		j.tr.stop()
	}
	return j.Journal.Append(ctx, rec, prev)
}

func (j tracedJournal) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	j.tr.note()
	return j.Journal.Last(ctx, key)
}

func (j tracedJournal) EnsureQueue(ctx context.Context, queue toolcall.Queue) error {
	j.tr.note()
	return j.Journal.EnsureQueue(ctx, queue)
}

type tracedPolicy struct {
	engine.Policy
	tr *tracer
}

func (p tracedPolicy) Decide(ctx context.Context, r permission.Request) permission.Decision {
	p.tr.note()
	return p.Policy.Decide(ctx, r)
}

// Hash is called before a decision is made again.
func (p tracedPolicy) Hash() string {
	p.tr.note()
	return p.Policy.Hash()
}

type tracedSigner struct {
	key ed25519.PrivateKey
	tr  *tracer
}

func newTracedSigner(t *testing.T, tr *tracer) tracedSigner {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return tracedSigner{key, tr}
}

func (s tracedSigner) SigningKey() ed25519.PrivateKey {
	s.tr.note()
	return s.key
}

func (s tracedSigner) HasRetired(string) bool {
	s.tr.note()
	return false
}
