package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// terminal is a conversation on a terminal.
type terminal struct {
	user, person engine.Client // you as the agent's user, and as the approver
	session      message.SessionID
	lines        <-chan string
	out          io.Writer
	after        uint64 // cursor
	calls        map[message.CallID]string
}

// say prints, and ignores errors: a person who closes the terminal does not read it.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// errEnded says that the input or the context ended.
var errEnded = errors.New("the conversation ended")

// talk reads messages and prints replies until the input or ctx ends.
func talk(ctx context.Context, h *house, runner *agent.Runner, name, session string, in io.Reader, out io.Writer) (err error) {
	defer func() {
		if errors.Is(err, errEnded) {
			say(out, "\n")
			err = nil
		}
	}()
	by := toolcall.Principal{Role: toolcall.RoleRuntime, Name: you}
	t := &terminal{
		user: h.as(by), person: h.as(toolcall.Principal{Role: toolcall.RoleApprover, Name: you}),
		session: message.SessionID(session), lines: lines(in), out: out, calls: map[message.CallID]string{},
	}
	thread, err := agent.ReadThread(ctx, t.user, t.session)
	if err != nil {
		return err
	}
	if t.after = thread.Through; thread.Open != "" { // from before a restart
		say(out, "(the last reply goes on)\n")
		t.after = 0
		if err := t.follow(ctx, thread.Open); err != nil {
			return err
		}
	}
	for {
		say(out, "> ")
		line, ok := t.line(ctx)
		if !ok {
			return errEnded
		}
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		msg, err := message.UserMsg(you, message.Content{Text: line})
		if err != nil {
			return err
		}
		reply, err := runner.Start(ctx, by, t.session, name, agent.Input{Messages: []*message.Msg{msg}})
		if err != nil {
			return err
		}
		if err := t.follow(ctx, reply); err != nil {
			return err
		}
	}
}

// lines reads lines until the input ends.
func lines(in io.Reader) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		s := bufio.NewScanner(in)
		for s.Scan() {
			out <- s.Text()
		}
	}()
	return out
}

func (t *terminal) line(ctx context.Context) (string, bool) {
	select {
	case line, ok := <-t.lines:
		return line, ok
	case <-ctx.Done():
		return "", false
	}
}

// follow prints a reply until it ends.
func (t *terminal) follow(ctx context.Context, reply message.ReplyID) error {
	for {
		page, err := t.user.Events(ctx, toolcall.EventsRequest{Session: t.session, Reply: reply, After: t.after, WaitMS: (20 * time.Second).Milliseconds()})
		if err != nil || ctx.Err() != nil {
			return err
		}
		t.after = page.Next
		for _, e := range page.Events {
			ev, err := message.DecodeEvent(e.Event)
			if err != nil {
				return err
			}
			if ended, err := t.show(ctx, ev); ended || err != nil {
				return err
			}
		}
	}
}

// show prints an event, and asks the person if it is an approval request.
func (t *terminal) show(ctx context.Context, ev message.Event) (ended bool, err error) {
	switch ev := ev.(type) {
	case *message.TextBlockDelta:
		say(t.out, "%s", ev.Delta)
	case *message.TextBlockEnd:
		say(t.out, "\n")
	case *message.ToolCallStart:
		t.calls[ev.ToolCallID] = ev.ToolCallName + " "
	case *message.ToolCallDelta: // deltas of parallel calls may alternate
		t.calls[ev.ToolCallID] += ev.Delta
	case *message.ToolCallEnd:
		say(t.out, "[%s: %s]\n", ev.ToolCallID, t.calls[ev.ToolCallID])
	case *message.ToolResultEnd:
		say(t.out, "[%s: %s]\n", ev.ToolCallID, ev.State)
	case *message.RequireUserConfirm:
		for _, c := range ev.ToolCalls {
			if err := t.ask(ctx, ev.Reply, c.ID); err != nil {
				return false, err
			}
		}
	case *message.ReplyEnd:
		if ev.Error != nil {
			say(t.out, "(%s)\n", ev.Error.Message)
		}
		return true, nil
	default:
	}
	return false, nil
}

// ask shows an open approval request to the person. The first answer on any surface wins.
func (t *terminal) ask(ctx context.Context, reply message.ReplyID, id message.CallID) error {
	key := toolcall.Key{Session: t.session, Reply: reply, Call: id}
	shown, err := t.person.Show(ctx, toolcall.ShowRequest{Key: key})
	if err != nil {
		return err
	}
	c := shown.Call
	if c.State != message.ToolCallAsking {
		return nil
	}
	say(t.out, "%s\n  %s %s\n  y to allow, anything else to reject with these words: ", c.Request.Text, c.Tool, c.Input)
	line, ok := t.line(ctx)
	if !ok {
		return errEnded // the approval request stays open
	}
	resp := toolcall.Response{Key: key, Digest: c.Digest, Kind: toolcall.ResponseReject, Feedback: line}
	if strings.TrimSpace(line) == "y" {
		resp.Kind, resp.Feedback = toolcall.ResponseApprove, ""
	}
	if _, err := t.person.SubmitResponse(ctx, resp); err != nil {
		say(t.out, "%v\n", err)
	}
	return nil
}
