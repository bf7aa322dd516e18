package inbox

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

// openLink reads the token of a link. It changes nothing.
func (in *Inbox) openLink(token string, space message.SpaceID) (k message.Key, f *form, err error) {
	if in.links == nil {
		return k, nil, &message.Error{Code: message.CodeNotFound, Op: "open link", What: "the link is not valid here", Hint: "find the request in the inbox"}
	}
	l, err := in.links.Open(token, space)
	if err != nil {
		return k, nil, err
	}
	f = &form{Do: doReject, Digest: l.Digest, Link: token}
	if l.Kind == message.ResponseApprove {
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
func (in *Inbox) spend(ctx context.Context, c engine.Client, who string, f *form, a message.Response) error {
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
	shown, err := c.Show(ctx, message.ShowRequest{V: 1, Key: k})
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
