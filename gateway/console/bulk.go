package console

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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

// maxBulk is how many requests one confirmation lists; a person would not read more.
const maxBulk = 500

// bulkWithin bounds the time for sending one confirmation. Responses it cuts off are not sent.
const bulkWithin = time.Minute

type bulkPages struct{ *Console }

// bulk is the confirmation of one response to several requests, or its report.
type bulk struct {
	shell
	Do     string // approve or reject
	Filter filter
	Back   string
	Items  []bulkItem
	Left   []bulkItem // selected requests that this person cannot respond to that way
	More   int        // matching requests beyond maxBulk
	Done   bool       // this is the report
	Sent   int
	Unsure int // responses whose outcome is unknown
}

type bulkItem struct {
	row
	Digest string
	Input  string
	Short  bool   // the summary leaves out a part of an argument
	Note   string // why it is left out, or the outcome
	OK     bool
	Unsure bool // the response may have counted
}

// review shows what one response to several requests would cover. It changes nothing.
func (in bulkPages) review(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	q := r.URL.Query()
	f := filterOf(q)
	v := bulk{shell: in.shell(r, p, "inbox", "Respond to several requests – askance"), Do: q.Get("do"), Filter: f, Back: f.listAddress()}
	if v.Do != doReject {
		v.Do = doApprove
	}
	err := readPage(r, p, func(ctx context.Context, c engine.Client) error {
		if q.Get("all") != "" {
			return v.addAll(ctx, c, p)
		}
		return v.addNamed(ctx, c, p, q["k"])
	})
	return in.writeOrFail(w, "bulk", v.shell, v, err)
}

// addAll adds the matching requests that are waiting for this person.
func (v *bulk) addAll(ctx context.Context, c engine.Client, p *gateway.Peer) error {
	f := v.Filter.first()
	f.Show, f.Mine = showOpen, true
	r := f.request()
	r.Limit = maxBulk
	total := 0
	for n := 0; ; {
		page, err := c.List(ctx, r)
		if err != nil {
			return err
		}
		total = max(total, page.Counts[toolcall.PhaseAsking])
		for _, call := range page.Calls[:min(len(page.Calls), maxBulk-n)] {
			v.add(p, call, true)
			n++
		}
		if r.Cursor = page.Cursor; r.Cursor == "" || n == maxBulk {
			v.More = max(0, total-n)
			return nil
		}
	}
}

// addNamed adds the current state of the requests that a form names.
func (v *bulk) addNamed(ctx context.Context, c engine.Client, p *gateway.Peer, names []string) error {
	if len(names) > maxBulk {
		return &message.Error{Code: message.CodeInvalid, Op: "respond", What: "too many requests are selected", Hint: fmt.Sprintf("select at most %d", maxBulk)}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		k, err := parseKey(name, p.Space.ID)
		if err != nil {
			return err
		}
		shown, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: k})
		if err != nil {
			return err
		}
		mine, err := isMine(ctx, c, p, shown.Call)
		if err != nil {
			return err
		}
		v.add(p, shown.Call, mine)
	}
	slices.SortStableFunc(v.Items, func(a, b bulkItem) int { return cmp.Compare(a.Order, b.Order) })
	return nil
}

// add adds a request to the confirmation, or to the list of those left out.
func (v *bulk) add(p *gateway.Peer, call *toolcall.Call, mine bool) {
	i := bulkItem{row: rowOf(call, p, mine, v.Filter, toolcall.Key{}, v.Now), Digest: call.Digest, Input: call.Input, Short: asked.IsShortened(call)}
	if i.Note = leftOut(p, call, v.Do, mine); i.Note != "" {
		v.Left = append(v.Left, i)
		return
	}
	v.Items = append(v.Items, i)
}

// leftOut says why a request is not in the confirmation, or returns "" if it is.
func leftOut(p *gateway.Peer, call *toolcall.Call, do string, mine bool) string {
	if call.State != message.ToolCallAsking || call.Request == nil {
		return "no longer open: " + asked.Verdict(call, "")
	}
	if asked.Forged(call, call.Digest) != "" {
		return "the digest of the engine does not match the request"
	}
	switch v, voted := call.VoteOf(p.Name); {
	case voted:
		return "you " + asked.Said(v) + " already"
	case !mine:
		return asked.WhyNotAsked(call, p.Name)
	}
	return obstacleTo(call, p, do)
}

// answer sends the response to each request with the digest from the confirmation, and reports each
// outcome.
func (in bulkPages) answer(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	back := filterOf(r.PostForm)
	v := bulk{shell: in.shell(r, p, "inbox", "Responses – askance"), Do: f.Do, Filter: back, Back: back.first().listAddress(), Done: true}
	items, err := bulkItemsOf(r.PostForm, p)
	if err != nil {
		return in.fail(w, v.shell, err)
	}
	if f.Do != doApprove && f.Do != doReject {
		return in.fail(w, v.shell, &message.Error{Code: message.CodeInvalid, Op: "respond", What: "the form has no response", Hint: "load the page again"})
	}
	c, err := p.As(toolcall.RoleApprover)
	if err != nil {
		return in.fail(w, v.shell, err)
	}
	status := http.StatusOK // of the page; the first error counts only if nothing was sent
	ctx, cancel := context.WithTimeout(r.Context(), bulkWithin)
	defer cancel()
	for _, i := range items {
		one := *f
		one.Digest = i.Digest
		if err = i.answer(ctx, c, p, &one, in.now()); err != nil && status == http.StatusOK {
			status = gateway.StatusOf(message.AsError("submit_response", err).Code)
		}
		v.Sent, v.Unsure = v.Sent+rank(i.OK), v.Unsure+rank(i.Unsure)
		v.Items = append(v.Items, i)
	}
	slices.SortStableFunc(v.Items, func(a, b bulkItem) int { return rank(a.OK) - rank(b.OK) }) // what failed comes first
	if v.Sent+v.Unsure > 0 {
		status = http.StatusOK
	}
	return in.write(w, status, "bulk", v)
}

func bulkItemsOf(q url.Values, p *gateway.Peer) ([]bulkItem, error) {
	bad := &message.Error{Code: message.CodeInvalid, Op: "respond", What: "the form lacks requests or their digests", Hint: "load the page again"}
	names, digests := q["k"], q["digest"]
	if len(names) == 0 || len(names) != len(digests) || len(names) > maxBulk || slices.Contains(digests, "") {
		return nil, bad
	}
	out := make([]bulkItem, len(names))
	for i, name := range names {
		if _, err := parseKey(name, p.Space.ID); err != nil {
			return nil, bad
		}
		out[i] = bulkItem{row: row{Key: name}, Digest: digests[i]}
	}
	return out, nil
}

// lookWithin bounds the lookup of a request whose response returned an error.
const lookWithin = 5 * time.Second

// answer responds to one request and records the outcome in the item.
func (i *bulkItem) answer(ctx context.Context, c engine.Client, p *gateway.Peer, f *form, now time.Time) error {
	k, err := parseKey(i.Key, p.Space.ID)
	if err != nil {
		i.Note = "not sent"
		return err
	}
	open := filter{Show: showOpen}
	i.row = row{Key: i.Key, ID: domID(k), Href: address(k, nil), Summary: string(k.Call)}
	resp, err := responseOf(f, k, nil, now)
	if err == nil && ctx.Err() != nil {
		i.Note = "not sent: the confirmation ran out of time. Respond again"
		return &message.Error{Code: message.CodeUnavailable, Op: "submit_response", What: i.Note, Err: ctx.Err()}
	}
	resp.ID = rand.Text()
	var call *toolcall.Call
	if err == nil {
		call, err = c.SubmitResponse(ctx, resp)
	}
	if err != nil {
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookWithin)
		defer cancel()
		if shown, failed := c.Show(look, toolcall.ShowRequest{V: 1, Key: k}); failed == nil {
			i.row = rowOf(shown.Call, p, false, open, toolcall.Key{}, now)
			if asked.IsUnsure(err) && shown.Call.HasResponse(p.Name, resp.ID) {
				call, err = shown.Call, nil
			}
		}
	}
	switch {
	case err == nil:
		i.row, i.Note, i.OK = rowOf(call, p, false, open, toolcall.Key{}, now), asked.Outcome(resp, call), true
	case errors.Is(err, message.ErrDigest):
		i.Note = "not sent: the request changed after the confirmation listed it"
	case asked.IsUnsure(err):
		i.Note, i.Unsure = asked.Unsure, true
	default:
		i.Note = "not accepted: " + strings.TrimSuffix(asked.Refusal(err), ".")
	}
	i.Note = reveal.Line(i.Note)
	return err
}
