package blocks

import (
	"context"
	"errors"
	"mime"
	"net/url"
	"path"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/toolcall"
)

// command carries out a client's command. It returns false when the connection ends.
func (c *conn) command(ctx context.Context, cancel context.CancelFunc, data []byte) bool {
	cmd, err := blockstream.DecodeCommand(data)
	if err != nil {
		return c.fail(ctx, err, "")
	}
	p := c.who()
	switch cmd := cmd.(type) {
	case *blockstream.Auth:
		return c.auth(ctx, cancel, cmd)
	case *blockstream.PingCommand:
		return c.send(ctx, &blockstream.Pong{})
	case *blockstream.PongCommand:
		return true
	default:
	}
	if p == nil {
		return c.send(ctx, &blockstream.Error{Code: blockstream.CodeUnauthenticated, Message: "authenticate first"})
	}
	switch cmd := cmd.(type) {
	case *blockstream.Subscribe:
		return c.subscribe(ctx, p, cmd.Session, cmd.LastEventID)
	case *blockstream.Chat:
		return c.chat(ctx, p, cmd)
	case *blockstream.Stop:
		return c.stop(ctx, p, cmd)
	case *blockstream.Approval:
		return c.approve(ctx, p, cmd)
	default:
		return c.failText(ctx, message.CodeInvalid, "the server does not take "+string(blockstream.CommandTypeOf(cmd)), "see BLOCKS.md")
	}
}

// auth accepts a token in place of a header. A wrong one, or that of another identity than the
// connection has, ends the connection: its client would respond in a name that it did not mean.
func (c *conn) auth(ctx context.Context, cancel context.CancelFunc, cmd *blockstream.Auth) bool {
	if p := c.who(); p != nil && p.Auth == auth.ViaLoopback { // there are no tokens
		return c.send(ctx, &blockstream.AuthOK{})
	}
	p, err := gateway.Login(c.r, cmd.Token)
	if err != nil {
		said := *message.AsError("authenticate", err)
		said.Err = nil // strangers do not learn the cause
		f, code, why := blockstream.ErrorFrame(&said, ""), websocket.StatusCode(blockstream.CloseTryAgain), "the token cannot be used now"
		if errors.Is(err, message.ErrForbidden) {
			code, why = blockstream.CloseUnauthenticated, "the token is not good here"
			f = &blockstream.Error{Code: blockstream.CodeUnauthenticated, Message: why}
		}
		c.send(ctx, f)
		c.end(cancel, code, why)
		return false
	}
	c.mu.Lock()
	c.peer = p
	c.mu.Unlock()
	return c.send(ctx, &blockstream.AuthOK{})
}

// chat begins a turn, and follows its session.
func (c *conn) chat(ctx context.Context, p *gateway.Peer, cmd *blockstream.Chat) bool {
	session := cmd.Session
	if session == "" {
		session = message.SessionID(uuid.NewString())
	}
	if sub := c.followed(); (sub == nil || sub.session != session) && !c.subscribe(ctx, p, session, "") {
		return false
	}
	err := c.begin(ctx, p, session, cmd)
	if err == nil {
		return true
	}
	f := blockstream.ErrorFrame(err, "")
	if _, open := errors.AsType[*agent.OpenTurnError](err); open {
		f.Code = blockstream.CodeTurnOpen
	}
	return c.send(ctx, f)
}

func (c *conn) begin(ctx context.Context, p *gateway.Peer, session message.SessionID, cmd *blockstream.Chat) error {
	runner, err := c.s.cfg.Runners.Of(p.Space.ID)
	if err != nil {
		return err
	}
	if _, err := p.As(toolcall.RoleRuntime); err != nil {
		return err
	}
	name := c.agent
	if agents := runner.Agents(); name == "" && len(agents) > 0 {
		name = agents[0].Name
	}
	content := []message.Block{&message.TextBlock{ID: uuid.NewString(), Text: cmd.Text}}
	for _, raw := range cmd.ContentURLs {
		src, err := message.NewURLSource(raw, mediaType(raw))
		if err != nil {
			return message.Errorf(message.CodeInvalid, "chat", "content_urls: %w", err)
		}
		content = append(content, message.NewData(src))
	}
	msg, err := message.UserMsg(p.Name, message.List(content...))
	if err != nil {
		return message.Errorf(message.CodeInvalid, "chat", "%w", err)
	}
	by := toolcall.Principal{Role: toolcall.RoleRuntime, Name: p.Name, Auth: p.Auth}
	_, err = runner.Start(ctx, by, session, name, agent.Input{Messages: []*message.Msg{msg}})
	return err
}

// mediaType guesses the media type of a URL by its path.
func mediaType(raw string) string {
	if u, err := url.Parse(raw); err == nil {
		if t, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(u.Path))); err == nil {
			return t
		}
	}
	return "application/octet-stream"
}

// contentURLs returns the URLs of the files that came with a turn's messages.
func contentURLs(r *agent.Record) []string {
	var out []string
	for _, m := range r.Messages {
		for _, b := range message.BlocksOf[*message.DataBlock](m) {
			if src, ok := b.Source.(*message.URLSource); ok {
				out = append(out, src.URL)
			}
		}
	}
	return out
}

// stop interrupts the followed session, or only the turn that the command names.
func (c *conn) stop(ctx context.Context, p *gateway.Peer, cmd *blockstream.Stop) bool {
	sub := c.followed()
	if sub == nil || cmd.Session != "" && cmd.Session != sub.session {
		return c.failText(ctx, message.CodeNotFound, "this session is not followed", "subscribe to it first")
	}
	cl, err := p.Stopper()
	switch {
	case err == nil && cmd.MessageID != "":
		_, err = cl.Interrupt(ctx, toolcall.InterruptRequest{Session: sub.session, Reply: cmd.MessageID})
	case err == nil:
		_, err = agent.Stop(ctx, cl, sub.session)
	}
	if err != nil {
		return c.fail(ctx, err, "")
	}
	return true
}

// approve answers open approval requests as they were shown here.
func (c *conn) approve(ctx context.Context, p *gateway.Peer, cmd *blockstream.Approval) bool {
	sub := c.followed()
	if sub == nil {
		return c.failText(ctx, message.CodeNotFound, "no session is followed", "subscribe first")
	}
	cl, err := p.As(toolcall.RoleApprover)
	if err != nil {
		return c.fail(ctx, err, cmd.Key)
	}
	responses, err := sub.answers(cmd)
	if err != nil {
		return c.fail(ctx, err, cmd.Key)
	}
	for _, resp := range responses {
		if _, err := cl.SubmitResponse(ctx, resp); err != nil && !c.fail(ctx, err, cmd.Key) {
			return false
		}
	}
	return true
}
