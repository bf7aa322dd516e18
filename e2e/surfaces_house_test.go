package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// The rules and tools of the house: every payment asks, and pays the given amount.
const (
	houseRules = `version: 1
name: house
rules:
  - {name: payments, tool_name: pay, behavior: ask, message: "'Pay ' + string(args.cents) + ' cents?'"}
`
	houseTools = `version: 1
tools:
  - name: pay
    placement: local
    idempotent: true
    concurrency_safe: true
    command: [cat]
    input_schema: {type: object, required: [cents], properties: {cents: {type: integer}}}
`
)

// house is askance as people run it: one process with a NATS server, the gateway and an agent, and
// tokens for HTTP clients.
type house struct {
	t      *testing.T // of the current test
	dir    string
	server *process
	nats   string
	http   string
	chat   *aguiSurface
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir()}
	w := &world{t: t, dir: h.dir}
	w.write("policy.yaml", houseRules)
	w.write("tools.yaml", houseTools)
	h.nats = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	h.http = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	h.server = newProcess(t, h.dir, "server", servesSign, bin.askance, "serve",
		"--data", w.file("data"), "--listen", h.nats, "--http", h.http, "--http-tokens", w.file("tokens.json"),
		"--policy", w.file("policy.yaml"), "--tools", w.file("tools.yaml"), "--demo-agent")
	return h
}

// in sets the current test.
func (h *house) in(t *testing.T) { h.t = t }

// token makes a token.
func (h *house) token(name string, roles ...string) string {
	h.t.Helper()
	args := []string{"token", "create", name, "--http-tokens", filepath.Join(h.dir, "tokens.json"), "--json"}
	for _, r := range roles {
		args = append(args, "--role", r)
	}
	var out struct{ Token string }
	h.run(&out, args...)
	return out.Token
}

// run runs an askance command that must succeed.
func (h *house) run(into any, args ...string) {
	h.t.Helper()
	out, errs, err := command(h.t.Context(), args...)
	if err == nil {
		err = json.Unmarshal([]byte(out), into)
	}
	if err != nil {
		h.t.Fatalf("askance %v: %v\n%s%s", args, err, out, errs)
	}
}

// surfaces starts the server and all surfaces.
func (h *house) surfaces() []surface {
	h.t.Helper()
	gina, bo, sam, wes := h.token("gina", "runtime", "approver"), h.token("bo", "approver"), h.token("sam", "approver"), h.token("wes", "approver")
	h.server.start()
	h.server.up()
	h.chat = newAGUISurface(h, gina)
	return []surface{h.chat, newBlocksSurface(h, bo), newScopeSurface(h, sam), newWebSurface(h, wes), newTerminalSurface(h), newNATSSurface(h)}
}

// ask lets the agent make a call that asks, and returns the approval request.
func (h *house) ask(session string, cents int) approval {
	h.t.Helper()
	h.chat.say(session, fmt.Sprintf(`call pay {"cents":%d}`, cents))
	var out struct {
		Calls []struct {
			Reply  string `json:"reply_id"`
			Call   string `json:"tool_call_id"`
			Digest string `json:"digest"`
		}
	}
	h.run(&out, "list", "--session", session, "--nats", "nats://"+h.nats, "--json")
	if len(out.Calls) != 1 {
		h.t.Fatalf("%d calls of %s are open, want 1", len(out.Calls), session)
	}
	c := out.Calls[0]
	return approval{session: session, cents: cents, reply: c.Reply, call: c.Call, digest: c.Digest}
}

// ending returns how an approval request ended according to the journal. There must be one answer
// and one end.
func (h *house) ending(q approval) ending {
	h.t.Helper()
	var out struct {
		Call struct {
			State string
			Votes []struct {
				Kind string
				By   struct{ Name string }
			}
			Result struct {
				State  string
				Output string
			}
		}
		History []struct {
			Path []struct{ To string }
		}
	}
	eventually(h.t, q.session+" ends", func() bool {
		h.run(&out, "show", q.path(), "--nats", "nats://"+h.nats, "--json")
		return out.Call.State == "finished"
	})
	ends := 0
	for _, f := range out.History {
		for _, step := range f.Path {
			if step.To == "finished" {
				ends++
			}
		}
	}
	if ends != 1 || len(out.Call.Votes) != 1 {
		h.t.Fatalf("%s has %d ends and %d answers, want one of each", q.session, ends, len(out.Call.Votes))
	}
	v, r := out.Call.Votes[0], out.Call.Result
	return ending{Verdict: v.Kind, By: v.By.Name, State: r.State, Output: r.Output}
}

// soon is how long a client waits for something that must arrive.
const soon = time.Minute
