package agui

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// readInput reads and checks the body of a request. Its errors are HTTP errors, because no run
// has begun.
func readInput(r *http.Request) (*wire.RunInput, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read run input", What: "the body is not declared as JSON", Hint: "send Content-Type: application/json"}
	}
	body, err := gateway.ReadBody("read run input", r)
	if err != nil {
		return nil, err
	}
	return decodeInput(body)
}

// decodeInput reads a run's input and checks its size.
func decodeInput(body []byte) (*wire.RunInput, error) {
	in, err := wire.DecodeRunInput(body)
	if err != nil {
		return nil, err
	}
	large := func(what string, n, limit int) error {
		return &message.Error{Code: message.CodeTooLarge, Op: "read run input", What: fmt.Sprintf("%s has %d, the limit is %d", what, n, limit), Hint: "send less"}
	}
	switch {
	case in.ThreadID == "":
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read run input", What: "threadId is empty", Hint: "name the thread, for example by a UUID"}
	case len(in.ThreadID) > toolcall.MaxIDBytes:
		return nil, large("threadId (in bytes)", len(in.ThreadID), toolcall.MaxIDBytes)
	case len(in.RunID) > toolcall.MaxIDBytes:
		return nil, large("runId (in bytes)", len(in.RunID), toolcall.MaxIDBytes)
	case len(in.Messages) > MaxMessages:
		return nil, large("messages", len(in.Messages), MaxMessages)
	case len(in.Tools) > MaxTools:
		return nil, large("tools", len(in.Tools), MaxTools)
	case len(in.Resume) > MaxEntries:
		return nil, large("resume", len(in.Resume), MaxEntries)
	}
	return in, nil
}

// agentOf returns the agent that the path names, or else the first.
func agentOf(r *http.Request, runner *agent.Runner) (string, error) {
	all := runner.Agents()
	name := r.PathValue("agent")
	if name == "" && len(all) > 0 {
		return all[0].Name, nil
	}
	if slices.ContainsFunc(all, func(a agent.Info) bool { return a.Name == name }) {
		return name, nil
	}
	return "", &message.Error{Code: message.CodeNotFound, Op: "run", What: fmt.Sprintf("there is no agent %q", name), Hint: "GET /agui lists them"}
}

// turnInput returns a run's input for the agent's turn: the new messages, the client's tools, and
// what else the frontend sends.
func (r *run) turnInput(fresh []*wire.Message) (agent.Input, error) {
	in := agent.Input{Input: map[string]message.RawJSON{}}
	for _, m := range fresh {
		msg, err := r.userMsg(m)
		if err != nil {
			return in, err
		}
		in.Messages = append(in.Messages, msg)
	}
	for _, t := range r.in.Tools {
		in.Tools = append(in.Tools, agent.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Client: true})
	}
	for name, raw := range map[string]message.RawJSON{"state": r.in.State, "context": contextOf(r.in), "forwardedProps": r.in.ForwardedProps} {
		if raw != nil {
			in.Input[name] = raw
		}
	}
	return in, nil
}

// userMsg converts a message of the person, or of the program in front of them.
func (r *run) userMsg(m *wire.Message) (*message.Msg, error) {
	if m.Role == wire.RoleUser {
		return m.UserMsg(message.Codec{}, r.peer.Name)
	}
	return message.Codec{}.SystemMsg(r.peer.Name, message.Content{Text: m.Content.String()}, message.WithID(m.ID))
}

// contextOf returns the context as JSON, or nil if there is none.
func contextOf(in *wire.RunInput) message.RawJSON {
	if len(in.Context) == 0 {
		return nil
	}
	raw, _ := strictjson.Marshal(in.Context) // it was read as UTF-8
	return raw
}

// origin returns the metadata of RUN_STARTED.
func (f *follower) origin() message.RawJSON {
	of := map[string]any{"sessionId": string(f.session)}
	if f.reply != "" {
		of["replyId"] = string(f.reply)
	}
	return object(map[string]any{"agentscope": of})
}

// hideForeign refuses the thread of another principal without saying whether it
// exists.
func hideForeign(err error) error {
	if errors.Is(err, message.ErrForeign) {
		return &message.Error{Code: message.CodeForbidden, Op: "run", What: "the thread is not yours", Hint: "begin a thread with an id of your own"}
	}
	return err
}

var _ gateway.Surface = (*Surface)(nil)
