package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const answerWithin = 20 * time.Second

type operation func(ctx context.Context, c engine.Client, k toolcall.Key, f *form) error

// carryOut reads a form, performs it in a role and redirects to the page of the call. On an error
// it shows the page with the error and the form.
func (in *Console) carryOut(w http.ResponseWriter, r *http.Request, p *gateway.Peer, role toolcall.Role, do operation) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	s := in.shell(r, p, "inbox", "Inbox – askance")
	k, err := keyOf(r.PostForm, p.Space.ID)
	if err != nil {
		return in.fail(w, s, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	list, rows := filterOf(r.PostForm), []string{}
	if f.Then == thenNext {
		if before, err := makeSide(ctx, p, list, k, in.now()); err == nil {
			rows = rowsBehind(before, domID(k))
		}
	}
	c, err := p.As(role)
	if err == nil {
		err = do(ctx, c, k, f)
	}
	if err == nil {
		http.Redirect(w, r, afterwards(r.Context(), p, k, f, list, rows, in.now()), http.StatusSeeOther) //nolint:gosec // an address of this server, made by address
		return nil
	}
	e := message.AsError("submit_response", err)
	s.Flash = &flash{Tone: "bad", Text: "Not accepted: " + reveal.Line(asked.Refusal(e))}
	if asked.IsUnsure(err) {
		s.Flash.Text = "The outcome is unknown: your response may have counted. Review the request again; sending the same response again does no harm."
	}
	return in.showCall(r.Context(), w, p, s, k, list.Fields(), f, gateway.StatusOf(e.Code))
}

// thenNext is the value of a button that opens the next request after the response.
const thenNext = "next"

// afterwards returns the page after a response: the same call, or the next request. rows are the
// requests that followed it in the list.
func afterwards(ctx context.Context, p *gateway.Peer, k toolcall.Key, f *form, list filter, rows []string, now time.Time) string {
	if f.Then == thenNext {
		if s, err := makeSide(ctx, p, list, k, now); err == nil {
			if next := nextRequest(s, domID(k), rows...); next != nil {
				return next.Href + "&" + url.Values{"was": {formKey(k)}, "did": {f.Do}}.Encode()
			}
		}
	}
	return address(k, list.Fields(), "sent", f.Do)
}

func (in *Console) answer(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	return in.carryOut(w, r, p, toolcall.RoleApprover, func(ctx context.Context, c engine.Client, k toolcall.Key, f *form) error {
		if err := f.check(); err != nil {
			return err
		}
		suggested, err := f.checkRequest(ctx, c, k)
		if err != nil {
			return err
		}
		resp, err := responseOf(f, k, suggested, in.now())
		if err != nil {
			return err
		}
		if err := in.useLink(ctx, c, p.Name, f, resp); err != nil {
			return err
		}
		_, err = c.SubmitResponse(ctx, resp)
		return err
	})
}

// check refuses what the engine would accept but a person cannot have intended.
func (f *form) check() error {
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, Op: "submit_response", What: what, Hint: hint}
	}
	switch {
	case f.Digest == "":
		return bad("the form names no request", "load the page again")
	case f.Do == doDelegate && f.To == "":
		return bad("the name is missing", "enter the name of the person")
	case f.Do == doRespond && strings.TrimSpace(f.Output) == "":
		return bad("the result is empty", "enter the text for the model")
	case f.Do != doEdit:
		return nil
	}
	if err := asked.CheckInput(f.Input); err != nil {
		return bad(err.Error(), "correct the arguments")
	}
	return nil
}

// checkRequest reads the approval request that a form depends on. It returns the suggested rules
// and refuses an edit that changes nothing.
func (f *form) checkRequest(ctx context.Context, c engine.Client, k toolcall.Key) ([]message.PermissionRule, error) {
	if f.Do != doEdit && f.Remember == "" {
		return nil, nil
	}
	shown, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: k})
	if err != nil {
		return nil, err
	}
	if f.Do == doEdit && shown.Call.Digest == f.Digest && diff(asked.Editable(shown.Call.Input), f.Input) == nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "edit", What: "the arguments did not change", Hint: "approve them as they are, or change them"}
	}
	return shown.Call.Suggested, nil
}

func (in *Console) resolve(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	return in.carryOut(w, r, p, toolcall.RoleOperator, func(ctx context.Context, c engine.Client, k toolcall.Key, f *form) error {
		_, err := c.Resolve(ctx, toolcall.ResolveRequest{V: 1, Key: k, Attempt: f.Attempt, Outcome: toolcall.Outcome(f.Outcome), Output: f.Output, Note: f.Note})
		return err
	})
}

func (in *Console) revoke(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	return in.carryOut(w, r, p, manager(p), func(ctx context.Context, c engine.Client, k toolcall.Key, f *form) error {
		_, err := c.Revoke(ctx, toolcall.RevokeRequest{V: 1, Key: k, Reason: f.Note})
		return err
	})
}

func (in *Console) interrupt(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	return in.carryOut(w, r, p, manager(p), func(ctx context.Context, c engine.Client, k toolcall.Key, f *form) error {
		_, err := c.Interrupt(ctx, toolcall.InterruptRequest{V: 1, Session: k.Session, Reply: k.Reply, Reason: f.Note})
		return err
	})
}

// manager returns the role in which a person revokes and interrupts.
func manager(p *gateway.Peer) toolcall.Role {
	if p.Has(toolcall.RoleOperator) {
		return toolcall.RoleOperator
	}
	return toolcall.RoleApprover
}

// sentFlash reports the state of a call after this person's action.
func sentFlash(c *toolcall.Call, who, do string) *flash {
	switch do {
	case doResolve:
		return &flash{Tone: "good", Text: asked.Resolved(c)}
	case doRevoke:
		return &flash{Tone: "good", Text: "Revoked: the call will not run."}
	case doInterrupt:
		return &flash{Tone: "good", Text: "Interrupted: no further call of this reply will start."}
	}
	for _, v := range slices.Backward(c.Votes) {
		if v.By.Name != who {
			continue
		}
		resp := toolcall.Response{Kind: v.Kind, Digest: v.Digest}
		resp.Digest = cmp.Or(v.Made, resp.Digest)
		return &flash{Tone: "good", Text: "You " + reveal.Line(asked.Outcome(resp, c)) + "."}
	}
	return nil
}

// fail shows an error as a page.
func (in *Console) fail(w http.ResponseWriter, s shell, err error) error {
	problem := gateway.ProblemOf(err)
	if errors.Is(err, message.ErrForbidden) {
		problem.Hint = cmp.Or(problem.Hint, "ask an administrator for the required role")
	}
	s.Title = problem.Title
	return in.write(w, problem.Status, "problem", struct {
		shell
		Problem gateway.Problem
		Back    string
	}{s, problem, filterOf(url.Values{}).listAddress()})
}

// readPage calls f with the engine from which a person reads pages.
func readPage(r *http.Request, p *gateway.Peer, f func(context.Context, engine.Client) error) error {
	c, err := p.Reader()
	if err != nil {
		return err
	}
	return f(r.Context(), c)
}

// writeOrFail replies with a page that was read, or says why it could not be read.
func (in *Console) writeOrFail(w http.ResponseWriter, name string, s shell, view any, err error) error {
	if err != nil {
		return in.fail(w, s, err)
	}
	return in.write(w, http.StatusOK, name, view)
}

// openLink reads the token of a link. It changes nothing.
func (in *Console) openLink(token string, space toolcall.SpaceID) (k toolcall.Key, f *form, err error) {
	if in.links == nil {
		return k, nil, &message.Error{Code: message.CodeNotFound, Op: "open link", What: "this server accepts no links", Hint: "find the request in the inbox"}
	}
	l, err := in.links.Open(token, space)
	if err != nil {
		return k, nil, err
	}
	f = &form{Do: doReject, Digest: l.Digest, Link: token}
	if l.Kind == toolcall.ResponseApprove {
		f.Do = doApprove
	}
	return l.Key, f, nil
}

// showLink is the target of webhook links: the page of the approval request with the response
// prepared. It sends nothing, because programs also open links.
func (in *Console) showLink(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	s := in.shell(r, p, "inbox", "Inbox – askance")
	k, f, err := in.openLink(r.URL.Query().Get("token"), p.Space.ID)
	if err != nil {
		return in.fail(w, s, err)
	}
	return in.showCall(r.Context(), w, p, s, k, url.Values{}, f, http.StatusOK)
}

// useLink uses up the link of a form just before its response goes to the engine. A response that
// would be refused does not use it up, except where only the engine knows the groups.
func (in *Console) useLink(ctx context.Context, c engine.Client, who string, f *form, resp toolcall.Response) error {
	if f.Link == "" {
		return nil
	}
	token := f.Link
	k, is, err := in.openLink(token, resp.Key.Space)
	if err != nil {
		return err
	}
	if k != resp.Key || is.Digest != resp.Digest || is.Do != f.Do {
		return &message.Error{Code: message.CodeInvalid, Op: "use link", What: "the link is for another response", Hint: "open it again"}
	}
	shown, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: k})
	if err != nil {
		return err
	}
	if shown.Call.State != message.ToolCallAsking || shown.Call.Digest != resp.Digest || asked.MayRespond(shown.Call, who) == asked.No {
		return nil // the engine says what is wrong
	}
	link, err := in.links.Open(token, resp.Key.Space)
	if err != nil {
		return err
	}
	err = in.links.Use(ctx, token, link)
	if errors.Is(err, message.ErrConflict) {
		f.Do, f.Link = "", "" // the approval request itself is still open
	}
	return err
}
