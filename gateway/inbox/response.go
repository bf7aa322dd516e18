package inbox

import (
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

// answerWithin bounds one answer.
const answerWithin = 20 * time.Second

// deed does what a form asks for, and gives the call as it is then.
type deed func(ctx context.Context, k toolcall.Key, f *form) (*toolcall.Call, error)

// carryOut reads a form, does what it says and goes back to the page of the
// call: with what became of it, or with what is wrong and the form as it was.
func (in *Inbox) carryOut(w http.ResponseWriter, r *http.Request, p *gateway.Peer, do deed) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	s := in.shell(r, p, "inbox", "askance inbox")
	k, err := keyOf(r.PostForm, p.Space.ID)
	if err != nil {
		return in.failed(w, s, err)
	}
	back := filterOf(r.PostForm).values()
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	if _, err = do(ctx, k, f); err == nil {
		http.Redirect(w, r, address(k, back, "sent", f.Do), http.StatusSeeOther)
		return nil
	}
	e := message.AsError("submit_response", err)
	s.Flash = &flash{Tone: "bad", Text: "Not accepted: " + reveal.Line(asked.Refusal(e))}
	if e.Code == message.CodeInternal {
		s.Flash.Text = "The server failed; its log has the reason. Review the request again before you retry."
	}
	return in.showCall(r.Context(), w, p, s, k, back, f, gateway.StatusOf(e.Code))
}

func (in *Inbox) answer(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	return in.carryOut(w, r, p, func(ctx context.Context, k toolcall.Key, f *form) (*toolcall.Call, error) {
		c, err := p.As(toolcall.RoleApprover)
		if err != nil {
			return nil, err
		}
		if err := f.complete(); err != nil {
			return nil, err
		}
		suggested, err := f.ready(ctx, c, k)
		if err != nil {
			return nil, err
		}
		a, err := answerOf(f, k, suggested, in.now())
		if err != nil {
			return nil, err
		}
		if err := in.spend(ctx, c, p.Name, f, a); err != nil {
			return nil, err
		}
		return c.SubmitResponse(ctx, a)
	})
}

// complete checks what the engine would take, but no person means.
func (f *form) complete() error {
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

// ready looks at the approval request before something is sent that depends on what it
// offers: the suggested rules, and that an edit changes something.
func (f *form) ready(ctx context.Context, c engine.Client, k toolcall.Key) ([]message.PermissionRule, error) {
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

func (in *Inbox) resolve(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	return in.carryOut(w, r, p, func(ctx context.Context, k toolcall.Key, f *form) (*toolcall.Call, error) {
		c, err := p.As(toolcall.RoleOperator)
		if err != nil {
			return nil, err
		}
		return c.Resolve(ctx, toolcall.ResolveRequest{V: 1, Key: k, Attempt: f.Attempt, Outcome: toolcall.Outcome(f.Outcome), Output: f.Output, Note: f.Note})
	})
}

func (in *Inbox) revoke(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	return in.carryOut(w, r, p, func(ctx context.Context, k toolcall.Key, f *form) (*toolcall.Call, error) {
		c, err := p.As(manager(p))
		if err != nil {
			return nil, err
		}
		return c.Revoke(ctx, toolcall.RevokeRequest{V: 1, Key: k, Reason: f.Note})
	})
}

func (in *Inbox) interrupt(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	return in.carryOut(w, r, p, func(ctx context.Context, k toolcall.Key, f *form) (*toolcall.Call, error) {
		c, err := p.As(manager(p))
		if err != nil {
			return nil, err
		}
		_, err = c.Interrupt(ctx, toolcall.InterruptRequest{V: 1, Session: k.Session, Reply: k.Reply, Reason: f.Note})
		return nil, err
	})
}

// manager is the role in which somebody takes back and interrupts.
func manager(p *gateway.Peer) toolcall.Role {
	if p.Has(toolcall.RoleOperator) {
		return toolcall.RoleOperator
	}
	return toolcall.RoleApprover
}

// sent says where a call stands after what this person has done.
func sent(c *toolcall.Call, who, do string) *flash {
	switch do {
	case doResolve:
		return &flash{Tone: "good", Text: "Resolved: the call is " + string(c.State) + "."}
	case doRevoke:
		return &flash{Tone: "good", Text: "Revoked: the call does not run."}
	case doInterrupt:
		return &flash{Tone: "good", Text: "Interrupted: no further call of this reply starts."}
	}
	for _, v := range slices.Backward(c.Votes) {
		if v.By.Name != who {
			continue
		}
		a := toolcall.Response{Kind: v.Kind, Digest: v.Digest}
		if v.Made != "" {
			a.Digest = v.Made
		}
		return &flash{Tone: "good", Text: "You " + reveal.Line(asked.Outcome(a, c)) + "."}
	}
	return nil
}

// failed shows an error as a page.
func (in *Inbox) failed(w http.ResponseWriter, s shell, err error) error {
	problem := gateway.ProblemOf(err)
	if errors.Is(err, message.ErrForbidden) {
		problem.Hint = orWord(problem.Hint, "ask an administrator for the required role")
	}
	s.Title = problem.Title
	return in.write(w, problem.Status, "problem", struct {
		shell
		Problem gateway.Problem
		Back    string
	}{s, problem, filterOf(url.Values{}).listAddress()})
}

// openLink reads the token of a link. It changes nothing.
func (in *Inbox) openLink(token string, space toolcall.SpaceID) (k toolcall.Key, f *form, err error) {
	if in.links == nil {
		return k, nil, &message.Error{Code: message.CodeNotFound, Op: "open link", What: "the link is not valid here", Hint: "find the request in the inbox"}
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

// fromLink is where the links of webhooks lead: the page of the approval request, with the
// decision prepared. It decides nothing: programs that look at links come here
// as well.
func (in *Inbox) fromLink(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	s := in.shell(r, p, "inbox", "askance inbox")
	k, f, err := in.openLink(r.URL.Query().Get("token"), p.Space.ID)
	if err != nil {
		return in.failed(w, s, err)
	}
	return in.showCall(r.Context(), w, p, s, k, url.Values{}, f, http.StatusOK)
}

// spend uses up the link by which somebody came, just before its answer goes to
// the engine: whoever sees that the answer would be refused does not use it up.
// Groups only the engine knows, so that its refusal of somebody may.
func (in *Inbox) spend(ctx context.Context, c engine.Client, who string, f *form, a toolcall.Response) error {
	if f.Link == "" {
		return nil
	}
	token := f.Link
	k, is, err := in.openLink(token, a.Key.Space)
	if err != nil {
		return err
	}
	if k != a.Key || is.Digest != a.Digest || is.Do != f.Do {
		return &message.Error{Code: message.CodeInvalid, Op: "use link", What: "the link is for another response", Hint: "follow it again"}
	}
	shown, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: k})
	if err != nil {
		return err
	}
	if shown.Call.State != message.ToolCallAsking || shown.Call.Digest != a.Digest || asked.MayRespond(shown.Call, who) == asked.No {
		return nil // the engine says what is wrong
	}
	link, err := in.links.Open(token, a.Key.Space)
	if err != nil {
		return err
	}
	err = in.links.Use(ctx, token, link)
	if errors.Is(err, message.ErrConflict) {
		f.Do, f.Link = "", "" // what is left is the approval request itself
	}
	return err
}
