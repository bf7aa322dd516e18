package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// maxAuditForm leaves room for a receipt in form encoding.
const maxAuditForm = 3 * api.MaxCheckedReceipt

// auditView is the page that shows what the journal proves.
type auditView struct {
	shell
	Status   api.ProofStatusReply
	Unsigned uint64
	Percent  int    // of a running verification
	Problem  string // why there is no status
	Find     string // the call for which a receipt is wanted
	Found    []historyRow
	Keys     map[string]toolcall.Key // of Found, by their ids
	Checked  *api.CheckReceiptReply
	Pasted   string
	Votes    []string
	End      string
}

// audit shows what the journal proves. A posted form starts a verification or checks a receipt.
func (in records) audit(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	v := auditView{shell: in.shell(r, p, "audit", "Audit – askance"), Find: strings.TrimSpace(r.URL.Query().Get("call"))}
	c, err := p.Reader()
	if err != nil {
		return err
	}
	verify := false
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			return err
		}
		if r.PostForm.Get("do") == "check" {
			if v.Pasted = strings.TrimSpace(r.PostForm.Get("receipt")); v.Pasted != "" {
				v.check(r.Context(), c)
			}
		}
		verify = r.PostForm.Get("do") == "verify"
	}
	if v.Status, err = api.ProofStatus.Call(r.Context(), c, api.ProofStatusRequest{V: 1, Verify: verify}); err != nil {
		v.Problem = message.AsError("audit", err).What
	}
	if verify && err == nil {
		http.Redirect(w, r, pathAudit, http.StatusSeeOther)
		return nil
	}
	v.Unsigned = v.Status.Last - min(v.Status.Last, v.Status.Signed)
	if s := v.Status.Verification; s != nil && s.Through > 0 {
		v.Percent = int(100 * s.Read / s.Through)
	}
	if v.Find != "" {
		if err := v.find(r.Context(), c, p.Space.ID); err != nil {
			return in.fail(w, v.shell, err)
		}
	}
	return in.write(w, http.StatusOK, "audit", v)
}

func (v *auditView) check(ctx context.Context, c engine.Client) {
	out := api.CheckReceiptReply{}
	if len(v.Pasted) > api.MaxCheckedReceipt {
		out.Reason = "it is too large for this page: use askance audit check"
	} else if reply, err := api.CheckReceipt.Call(ctx, c, api.CheckReceiptRequest{V: 1, Receipt: message.RawJSON(v.Pasted)}); err != nil {
		out.Reason = message.AsError("check receipt", err).What
	} else {
		out = reply
	}
	v.Checked = &out
	for _, vote := range out.Votes {
		v.Votes = append(v.Votes, asked.Said(vote)+" by "+asked.Who(vote.By))
	}
	v.End, _ = asked.Step(out.Cause)
	if out.Valid {
		v.Pasted = ""
	}
}

// find looks up calls by id: either session/reply/call, or only the last part.
func (v *auditView) find(ctx context.Context, c engine.Client, space toolcall.SpaceID) error {
	v.Keys = map[string]toolcall.Key{}
	add := func(calls ...*toolcall.Call) {
		for _, call := range calls {
			row := historyRowOf(call, v.Now)
			if _, have := v.Keys[row.ID]; !have {
				v.Keys[row.ID], v.Found = call.Key, append(v.Found, row)
			}
		}
	}
	if parts := strings.Split(v.Find, "/"); len(parts) == 3 {
		k := toolcall.Key{Space: space, Session: message.SessionID(parts[0]), Reply: message.ReplyID(parts[1]), Call: message.CallID(parts[2])}
		if show, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: k}); err == nil { // otherwise the whole text is an id
			add(show.Call)
			return nil
		}
	}
	for _, r := range []toolcall.ListRequest{{V: 1, Call: message.CallID(v.Find), Limit: 10}, {V: 1, Call: message.CallID(v.Find), Limit: 10, Newest: true}} {
		page, err := c.List(ctx, r)
		if err != nil {
			return err
		}
		add(page.Calls...)
	}
	return nil
}

func (in records) receipt(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	if err := r.ParseForm(); err != nil {
		return err
	}
	s := in.shell(r, p, "audit", "Audit – askance")
	k, err := keyOf(r.PostForm, p.Space.ID)
	if err != nil {
		return in.fail(w, s, err)
	}
	c, err := p.Reader()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	out, err := api.Receipt.Call(ctx, c, api.ReceiptRequest{V: 1, Key: k})
	if err != nil {
		return in.fail(w, s, err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="askance-%s.receipt.json"`, domID(k)))
	_, err = w.Write(append(out.Receipt, '\n'))
	return err
}
