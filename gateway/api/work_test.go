package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// python starts testdata/worker.py for a tool. instead replaces the line that runs the tool.
func (w *world) python(tool, instead string) *exec.Cmd {
	w.t.Helper()
	source, err := os.ReadFile("testdata/worker.py")
	if err != nil {
		w.t.Fatal(err)
	}
	program := string(source)
	if instead != "" {
		program = strings.Replace(program, "    return json.dumps(arguments)", "    "+instead, 1)
	}
	c := exec.CommandContext(context.WithoutCancel(w.t.Context()), "python3", "-c", program, w.URL, "alpha:"+gatewaytest.Wendy, tool)
	c.Stderr = os.Stderr
	w.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // it may have ended
	return c
}

// until waits for a call for which ok returns true.
func (w *world) until(k toolcall.Key, ok func(*toolcall.Call) bool) *toolcall.Call {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), gatewaytest.Patience)
	defer cancel()
	operator := w.A.Client(gatewaytest.Olga)
	for {
		rep, err := operator.Show(ctx, toolcall.ShowRequest{Key: k})
		if err != nil {
			w.t.Fatalf("show %s: %v", k, err)
		}
		if ok(rep.Call) {
			return rep.Call
		}
		if _, err := operator.Wait(ctx, toolcall.WaitRequest{Session: k.Session, Reply: k.Reply, TimeoutMS: 50}); err != nil {
			w.t.Fatalf("waiting for %s, which is %s: %v", k, rep.Call.Phase(), err)
		}
	}
}

// The worker in the guide needs only the standard library of Python.
func TestPythonWorker(t *testing.T) {
	w := newWorld(t)
	if err := w.python(gatewaytest.Job, "").Start(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		k := w.A.Propose("s", "r", fmt.Sprint("é/", i), gatewaytest.Job, fmt.Sprintf(`{"n": %d}`, i)).Key
		c := w.until(k, func(c *toolcall.Call) bool { return !c.Open() })
		if want := fmt.Sprintf(`{"n": %d}`, i); c.Result.State != message.ToolResultSuccess || c.Result.Output.String() != want || c.Attempt.Worker != gatewaytest.Wendy {
			t.Errorf("worker %s reported %s %q, want %q", c.Attempt.Worker, c.Result.State, c.Result.Output.String(), want)
		}
	}
}

// If a worker over HTTP is killed during a run, the call has an unknown outcome, as with a worker
// over NATS. An operator resolves it.
func TestKilledPythonWorker(t *testing.T) {
	w := newWorld(t)
	p := w.python(gatewaytest.Frail, `print("runs", flush=True); time.sleep(3600)`)
	out, err := p.StdoutPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	k := w.A.Propose("s", "r", "c", gatewaytest.Frail, `{}`).Key
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("the tool never ran")
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c := w.until(k, func(c *toolcall.Call) bool { return c.Phase() == toolcall.PhaseBlocked || !c.Open() })
	if c.Blocked != toolcall.BlockedUnknown || c.Begun != 1 {
		t.Errorf("the call is %s (%s), begun %d times", c.Phase(), c.Blocked, c.Begun)
	}
}

type owned struct {
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id"`
	Call    message.CallID    `json:"tool_call_id"`
	Attempt int               `json:"attempt"`
	Claim   string            `json:"claim"`
	Request string            `json:"request,omitzero"`
	Nonce   string            `json:"grant_nonce,omitzero"`
	Refuse  string            `json:"refuse,omitzero"`
	N       int               `json:"n,omitzero"`
	Text    string            `json:"text,omitzero"`
	Result  json.RawMessage   `json:"result,omitzero"`
}

func (o owned) text() string { b, _ := json.Marshal(o); return string(b) }

// take takes up to limit tasks of Job, and removes tasks of other sessions from the queue.
func (w *world) take(limit int) []toolcall.OfferedTask {
	w.t.Helper()
	var out []toolcall.OfferedTask
	for len(out) == 0 {
		var rep toolcall.NextTasksReply
		w.ok(w.A.HTTP(gatewaytest.Wendy), "POST", "/v1/work/next", fmt.Sprintf(`{"tool_name": "job", "limit": %d, "wait_ms": 10000}`, limit), &rep)
		for _, task := range rep.Tasks {
			if ownedBy(w.t, task).Session == "work" {
				out = append(out, task)
				continue
			}
			w.ok(w.A.HTTP(gatewaytest.Wendy), "POST", "/v1/work/ack", fmt.Sprintf(`{"tool_name": "job", "task": %q}`, task.Task), nil)
		}
	}
	return out
}

func ownedBy(t *testing.T, task toolcall.OfferedTask) owned {
	t.Helper()
	var rec toolcall.EventRecord
	if err := json.Unmarshal(task.Record, &rec); err != nil {
		t.Fatal(err)
	}
	c := rec.Call
	return owned{Session: c.Session, Reply: c.Reply, Call: c.Call, Attempt: c.Attempt.Number, Claim: "x", Request: "1", Nonce: c.Attempt.Grant.Nonce}
}

// workStory follows one task from the queue to its result and tries what a worker may not do.
// TestStory runs it.
func workStory(t *testing.T, w *world) {
	t.Helper()
	wendy := w.A.HTTP(gatewaytest.Wendy)
	first := w.A.Propose("work", "r", "c1", gatewaytest.Job, `{"n":1}`)
	w.A.Propose("work", "r", "c2", gatewaytest.Job, `{"n":2}`)
	tasks := w.take(8)
	for len(tasks) < 2 {
		tasks = append(tasks, w.take(8)...)
	}

	// The keys verify the grant and the reply to the start.
	var keys toolcall.EngineKeysReply
	w.ok(wendy, "GET", "/v1/work/keys", "", &keys)
	if len(keys.Keys) != 1 {
		t.Fatalf("the keys of the engine are %+v", keys)
	}
	public, err := toolcall.ParsePublicKey(keys.Keys[0].Public)
	if err != nil {
		t.Fatal(err)
	}
	trusted := toolcall.NewKeySet(public)
	own := ownedBy(t, tasks[0])
	if err := first.Attempt.Grant.VerifyQueue(trusted, *first.Request, toolcall.Queue{Tool: first.Tool}, first.Attempt.Number, first.Attempt.OfferedAt); err != nil {
		t.Errorf("the grant is invalid: %v", err)
	}
	var started toolcall.StartReply
	w.ok(wendy, "POST", "/v1/work/start", own.text(), &started)
	if err := started.Verify(trusted, toolcall.StartRequest{Key: first.Key, Attempt: 1, Claim: "x", Request: "1", Nonce: own.Nonce}, first.Attempt.Grant); err != nil {
		t.Errorf("the reply to the start is invalid: %v", err)
	}
	w.ok(wendy, "POST", "/v1/work/start", own.text(), &started) // sent again, as if the reply was lost
	ack := func(task toolcall.OfferedTask, more string) string {
		b, _ := json.Marshal(task.Task)
		return fmt.Sprintf(`{"tool_name": "job", "task": %s%s}`, b, more)
	}
	w.ok(wendy, "POST", "/v1/work/ack", ack(tasks[0], ""), nil)
	plain := own
	plain.Request, plain.Nonce = "", ""
	w.ok(wendy, "POST", "/v1/work/heartbeat", plain.text(), nil)
	line := plain
	line.N, line.Text = 1, "half"
	w.ok(wendy, "POST", "/v1/work/progress", line.text(), nil)
	done := plain
	done.Result = json.RawMessage(`{"type":"tool_result","id":"c1","name":"job","output":"ok","state":"success"}`)
	w.ok(wendy, "POST", "/v1/work/result", done.text(), nil)
	w.ok(wendy, "POST", "/v1/work/result", done.text(), nil) // sent again, as if the reply was lost
	late := own
	late.Claim = "y"
	if p := w.refused(wendy, "POST", "/v1/work/start", late.text(), 409, message.CodeFinished); p.Call == nil || p.Call.Open() {
		t.Errorf("a late start got the call %+v", p.Call)
	}

	// Returning or rejecting a task does not end the call.
	w.ok(wendy, "POST", "/v1/work/ack", ack(tasks[1], `, "return": true`), nil)
	again := w.take(1)[0]
	if again.Delivered != 2 {
		t.Errorf("the returned task was delivered %d times, want 2", again.Delivered)
	}
	reject := ownedBy(t, again)
	reject.Refuse = "no such engine key"
	if p := w.refused(wendy, "POST", "/v1/work/start", reject.text(), 409, message.CodeSuperseded); p.Call == nil || p.Call.Returned == nil {
		t.Errorf("after the task was rejected the call is %+v", p.Call)
	}
	w.ok(wendy, "POST", "/v1/work/ack", ack(again, ""), nil)
	if next := ownedBy(t, w.take(1)[0]); next.Attempt != 2 {
		t.Errorf("attempt %d is offered after a rejection, want 2", next.Attempt)
	}

	// A token is valid only for its tools, and only as a worker.
	w.refused(wendy, "POST", "/v1/work/next", `{"tool_name": "ship"}`, 403, message.CodeForbidden)
	w.refused(wendy, "POST", "/v1/work/next", `{"tool_name": "job", "subject": "exec.payments"}`, 403, message.CodeForbidden)
	w.refused(wendy, "POST", "/v1/work/ack", strings.Replace(ack(tasks[0], ""), `"job"`, `"frail"`, 1), 400, message.CodeInvalid)
	w.refused(w.A.HTTP(gatewaytest.Bot), "POST", "/v1/work/next", `{"tool_name": "job"}`, 403, message.CodeForbidden)
	w.refused(wendy, "POST", "/v1/work/start", strings.Replace(own.text(), "{", `{"space":"beta",`, 1), 400, message.CodeInvalid)
	w.refused(w.B.HTTP(gatewaytest.Wendy), "POST", "/v1/work/heartbeat", plain.text(), 404, message.CodeNotFound)
}

// A worker that gets the reply to its start too late does not run the call, which may belong to
// another worker by then. It returns the attempt, and the next one runs.
func TestLatePythonWorker(t *testing.T) {
	w := newWorld(t)
	p := w.python(gatewaytest.Frail, `print("runs", flush=True); return "ran"`)
	const program = 2 // python3 -c PROGRAM
	p.Args[program] = strings.Replace(p.Args[program], "sent = time.monotonic(), time.time()", "sent = time.monotonic() - (0 if attempt[\"number\"] > 1 else 3600), time.time()", 1)
	if !strings.Contains(p.Args[program], "3600)") {
		t.Fatalf("the program is %q", p.Args)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	k := w.A.Propose("s", "r", "c", gatewaytest.Frail, `{}`).Key
	c := w.until(k, func(c *toolcall.Call) bool { return !c.Open() || c.Phase() == toolcall.PhaseBlocked })
	if c.Open() || c.Attempt.Number != 2 || c.Begun != 1 {
		t.Errorf("the call is %s in attempt %d, begun %d times", c.Phase(), c.Attempt.Number, c.Begun)
	}
}

// Tasks of workers that disconnected while they waited go to other workers at once.
func TestDisconnectedWorkers(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorldWith(t, func(*gatewaytest.World, *api.Config) {}, gatewaytest.In(dir), gatewaytest.Piped())
		next := func(limit int) (*http.Request, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/v1/work/next", strings.NewReader(fmt.Sprintf(`{"tool_name": "job", "limit": %d}`, limit)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			return r, cancel
		}
		var gone sync.WaitGroup
		for i := range 8 {
			r, cancel := next(i % 3)
			gone.Go(func() {
				if res, err := w.A.HTTP(gatewaytest.Wendy).Do(r); err == nil {
					_ = res.Body.Close() // no task was offered
					t.Errorf("a cancelled request got %s", res.Status)
				}
			})
			synctest.Wait()
			cancel()
		}
		gone.Wait()
		synctest.Wait() // until the server has seen it
		w.A.Propose("work", "r", "c1", gatewaytest.Job, `{}`)
		began := time.Now()
		task := w.take(1)[0]
		if d := time.Since(began); d > time.Second {
			t.Errorf("the task came after %s", d)
		}
		w.ok(w.A.HTTP(gatewaytest.Wendy), "POST", "/v1/work/ack", fmt.Sprintf(`{"tool_name": "job", "task": %q}`, task.Task), nil)
	})
}

// TestShellWorker runs the worker of docs/howto/work-over-http.md, which contains the unchanged
// file. The worker runs what its engine signed and refuses what another engine signed.
func TestShellWorker(t *testing.T) {
	program, err := os.ReadFile("testdata/worker.sh")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/howto/work-over-http.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```sh\n"+string(program)+"```\n") {
		t.Error("the page does not contain testdata/worker.sh; copy it")
	}
	w := newWorld(t)
	var keys json.RawMessage
	w.ok(w.A.HTTP(gatewaytest.Wendy), "GET", "/v1/work/keys", "", &keys)
	script, err := filepath.Abs("testdata/worker.sh")
	if err != nil {
		t.Fatal(err)
	}
	url := w.URL
	begin := func(script, tool string, keys []byte) (worker *exec.Cmd, stop func()) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "engine.pub"), keys, 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), "sh", script, url, tool)
		c.Dir, c.Env = dir, append(os.Environ(), "ASKANCE_TOKEN=alpha:"+gatewaytest.Wendy)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return c, sync.OnceFunc(func() {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // also kills curl and the heartbeats
			_ = c.Wait()
		})
	}
	for _, c := range []struct{ token, missing string }{{"", "ASKANCE_TOKEN"}, {"t", "engine.pub"}} {
		worker := exec.CommandContext(t.Context(), "sh", script, url, gatewaytest.Job)
		worker.Dir, worker.Env = t.TempDir(), append(os.Environ(), "ASKANCE_TOKEN="+c.token)
		if said, err := worker.CombinedOutput(); err == nil || !strings.Contains(string(said), c.missing) {
			t.Errorf("a worker without %s: %v\n%s", c.missing, err, said)
		}
	}
	_, stop := begin(script, gatewaytest.Job, []byte(`{"v":1,"keys":[]}`))
	t.Cleanup(stop)
	key := w.A.Propose("s", "r", "c1", gatewaytest.Job, `{"n": 1}`).Key
	w.until(key, func(c *toolcall.Call) bool {
		return c.Returned != nil && strings.Contains(c.Returned.Reason, "not for this call")
	})
	stop()
	_, stop = begin(script, gatewaytest.Job, keys)
	t.Cleanup(stop)
	input := `{"n": 2.50, "text": "é\n` + strings.Repeat("x", 150_000) + `"}` // no argument of a program can be as large
	key = w.A.Propose("s", "r", "c2", gatewaytest.Job, input).Key
	c := w.until(key, func(c *toolcall.Call) bool { return !c.Open() })
	if want := "refunded " + input + " under " + c.IdempotencyKey() + "\n"; c.Result.State != message.ToolResultSuccess || c.Result.Output.String() != want {
		t.Errorf("the result of the call is %s %.100q, want %.100q", c.Result.State, c.Result.Output.String(), want)
	}
	stop()

	before, after, _ := strings.Cut(string(program), "run() {")
	_, after, found := strings.Cut(after, "\n}\n")

	// If the server refuses a result, the worker reports an error instead, and goes on. It repeats a
	// request that no engine answered, and gives up a start that an engine refused for good.
	server, err := neturl.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	var tries sync.Map // by operation
	final := []string{"archived", "foreign"}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }, ModifyResponse: func(res *http.Response) error {
		if res.Request.URL.Path == "/v1/work/next" {
			return nil // else the task comes only after 10 seconds
		}
		n, _ := tries.LoadOrStore(res.Request.URL.Path, new(atomic.Int32))
		switch n.(*atomic.Int32).Add(1) {
		case 1:
			res.StatusCode, res.Body = http.StatusServiceUnavailable, io.NopCloser(strings.NewReader(`{"code":"unavailable"}`))
			res.ContentLength = -1
			res.Header.Del("Content-Length")
		case 2:
			panic(http.ErrAbortHandler) // the connection breaks
		}
		if !strings.HasSuffix(res.Request.URL.Path, "/start") {
			return nil
		}
		body, err := io.ReadAll(res.Body)
		for _, code := range final {
			if strings.Contains(string(body), `"tool_call_id":"`+code+`"`) {
				res.StatusCode, body = http.StatusConflict, []byte(`{"code":"`+code+`"}`)
			}
		}
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
		res.Header.Del("Content-Length")
		return err
	}}
	busy := httptest.NewServer(proxy)
	t.Cleanup(busy.Close)
	url = busy.URL
	large := filepath.Join(t.TempDir(), "large.sh")
	if err := os.WriteFile(large, []byte(before+"run() {\n  head -c \"$(jq .n \"$1\")\" /dev/zero | tr '\\0' x\n}\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stop = begin(large, gatewaytest.Job, keys)
	t.Cleanup(stop)
	for _, n := range []int{600_000, 900_000} { // beyond the limit of a result, and of a request
		key = w.A.Propose("s", "refused", fmt.Sprint("c", n), gatewaytest.Job, fmt.Sprintf(`{"n": %d}`, n)).Key
		c := w.until(key, func(c *toolcall.Call) bool { return !c.Open() })
		if text := c.Result.Output.String(); c.Result.State != message.ToolResultError || !strings.Contains(text, "ended with success, but its result was refused: ") {
			t.Errorf("the result of %d bytes is %s %.200q", n, c.Result.State, text)
		}
	}
	for _, code := range final {
		w.A.Propose("s", "final", code, gatewaytest.Job, `{"n": 3}`)
	}
	key = w.A.Propose("s", "stored", "c2", gatewaytest.Job, `{"n": 3}`).Key
	if c := w.until(key, func(c *toolcall.Call) bool { return !c.Open() }); c.Result.Output.String() != "xxx" {
		t.Errorf("the result of the call is %.100q", c.Result.Output.String())
	}
	stop()

	// The heartbeats end with the worker, so that its call can end.
	if !found || !strings.Contains(after, "send heartbeat") {
		t.Fatal("the worker has no function run, or no heartbeats")
	}
	after = strings.Replace(after, "send heartbeat", ": >beat; send heartbeat", 1)
	slow := filepath.Join(t.TempDir(), "slow.sh")
	if err := os.WriteFile(slow, []byte(before+"run() {\n  sleep 300\n}\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
	worker, stop := begin(slow, gatewaytest.Job, keys)
	t.Cleanup(stop)
	key = w.A.Propose("s", "r", "c3", gatewaytest.Job, `{"n": 3}`).Key
	hasBeat := func() bool {
		_, err := os.Stat(filepath.Join(worker.Dir, "beat"))
		return err == nil
	}
	w.until(key, func(*toolcall.Call) bool { return hasBeat() })
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait() // the signal is its error
	for range 5 {
		_ = os.Remove(filepath.Join(worker.Dir, "beat"))
		time.Sleep(5 * time.Second) // the lease is 10 s: more than one heartbeat
		if !hasBeat() {
			return
		}
	}
	t.Error("the heartbeats go on after the worker ended")
}
