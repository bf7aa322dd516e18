package webhook

import (
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The types of notices.
const (
	TypeRequestOpened    = "request.opened"
	typeRequestEscalated = "request.escalated"
	TypeCallFinished     = "call.finished"
)

// maxNotice bounds the body of a message in bytes. Notice.Cut names what is left out.
const maxNotice = 256 << 10

// Notice is a message in the format askance.
type Notice struct {
	// Type is one of the Type constants; retries keep the ID.
	Type string `json:"type"`
	ID   string `json:"id"`
	// Seq orders the notices of a space; Timestamp is when it happened.
	Seq       uint64             `json:"seq"`
	Timestamp time.Time          `json:"timestamp"`
	Space     toolcall.SpaceID   `json:"space"`
	By        toolcall.Principal `json:"by"`   // who caused it
	Call      *toolcall.Call     `json:"call"` // redacted as rules say
	// Waiting says whose approval is missing; only in approval requests.
	Waiting *toolcall.Waiting `json:"waiting,omitzero"`
	Links   *LinkSet          `json:"links,omitzero"`
	// Cut are the paths of texts that were left out because of maxNotice.
	Cut []string `json:"cut,omitzero"`
}

// LinkSet has the links of a message; Approve and Reject only of open requests.
type LinkSet struct {
	Request string `json:"request"`
	Approve string `json:"approve,omitzero"`
	Reject  string `json:"reject,omitzero"`
}

func eventOf(rec *toolcall.EventRecord) Event {
	switch {
	case rec == nil || rec.Call == nil || rec.Note != nil:
		return ""
	case rec.Call.State == message.ToolCallFinished:
		return EventOutcome
	case rec.Call.State != message.ToolCallAsking:
		return ""
	}
	switch rec.Kind() {
	case "vote", "skip", "delegate": // the approval request is the same
		return ""
	case "escalate":
		return EventEscalation
	}
	return EventRequest
}

var types = map[Event]string{EventRequest: TypeRequestOpened, EventEscalation: typeRequestEscalated, EventOutcome: TypeCallFinished}

// noticeOf makes the notice of a record, or returns nil if the destination does not want it.
func (w *Webhooks) noticeOf(d *Destination, r toolcall.JournalEntry) *Notice {
	if r.Invalid != nil || r.Record == nil {
		return nil
	}
	event := eventOf(r.Record)
	if event == "" || !d.wants(event, r.Record.Call.Tool) {
		return nil
	}
	record, call := r.Record, w.cfg.Space.ShowCall(r.Record.Call).Clone()
	call.At(r.Seq)
	n := &Notice{
		Type: types[event], ID: "msg_" + string(call.Space) + "_" + strconv.FormatUint(r.Seq, 10), Seq: r.Seq, Timestamp: record.At,
		Space: call.Space, By: record.By, Call: call,
	}
	if waiting, open := call.Waiting(time.Now()); open {
		n.Waiting = &waiting
	}
	if w.cfg.Links != nil {
		n.Links = w.cfg.Links.makeSet(d.Name, n)
	}
	return n
}

// isRequest reports whether it is about an open approval request.
func (n *Notice) isRequest() bool { return n.Type != TypeCallFinished }

// encode encodes the notice and leaves out long texts, the longest kind first.
func (n *Notice) encode() ([]byte, error) {
	b, err := strictjson.Marshal(n)
	if err != nil || len(b) <= maxNotice {
		return b, err
	}
	short := *n
	short.Call = n.Call.Clone()
	short.Call.Input, short.Cut = "", []string{"call.input"}
	if req := short.Call.Request; req != nil {
		cut := *req
		cut.Input, short.Call.Request = "", &cut
		short.Cut = append(short.Cut, "call.request.input")
	}
	if short.Call.Result != nil {
		short.Call.Result = nil
		short.Cut = append(short.Cut, "call.result")
	}
	if b, err = strictjson.Marshal(short); err != nil || len(b) <= maxNotice {
		return b, err
	}
	short.Call = &toolcall.Call{Key: n.Call.Key, Tool: n.Call.Tool, State: n.Call.State, Digest: n.Call.Digest, UpdatedAt: n.Call.UpdatedAt, ProposedAt: n.Call.ProposedAt}
	short.Cut = []string{"call"}
	return strictjson.Marshal(short)
}

// Slack's limits in characters; a text never has fewer bytes than characters.
const (
	slackHeader  = 150
	slackSection = 2900
	slackContext = 1000
	slackLines   = 8 // of a context
	slackURL     = 3000
)

// slackMessage is the payload of an incoming webhook.
type slackMessage struct {
	Text   string       `json:"text"` // shown in notifications; Slack reads no marks in it
	Marks  bool         `json:"mrkdwn"`
	Unfurl bool         `json:"unfurl_links"`
	Blocks []slackBlock `json:"blocks"`
}

type slackBlock struct {
	Type     string         `json:"type"`
	Text     *slackText     `json:"text,omitzero"`
	Elements []slackElement `json:"elements,omitzero"`
}

type slackText struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Verbatim *bool  `json:"verbatim,omitzero"` // names and URLs in the text do not become links
	Emoji    *bool  `json:"emoji,omitzero"`
}

// slackElement is a button or a text.
type slackElement struct {
	Type     string `json:"type"`
	Text     any    `json:"text,omitzero"` // a slackText for buttons, a string for texts
	Emoji    *bool  `json:"emoji,omitzero"`
	URL      string `json:"url,omitzero"`
	Style    string `json:"style,omitzero"`
	ActionID string `json:"action_id,omitzero"`
}

// encodeSlack encodes a notice for Slack. Slack reads no marks in values of a call:
// they are plain text, or code that they cannot end.
func encodeSlack(n *Notice) ([]byte, error) {
	title := map[string]string{TypeRequestOpened: "Approval needed", typeRequestEscalated: "Approval still needed", TypeCallFinished: "Finished"}[n.Type]
	would := asked.Title(n.Call)
	title += ": " + reveal.Line(shorten(would))
	m := slackMessage{Text: slackEscape(title, slackHeader), Blocks: []slackBlock{{Type: "header", Text: plainText(title, slackHeader)}}}
	add := func(b slackBlock) { m.Blocks = append(m.Blocks, b) }
	if n.Call.Request != nil && n.isRequest() && n.Call.Request.Text != would {
		text := reveal.Text(shorten(n.Call.Request.Text))
		m.Text = slackEscape(title+"\n"+text, slackContext)
		add(slackBlock{Type: "section", Text: plainText(text, slackSection)})
	}
	add(slackBlock{Type: "section", Text: &slackText{Type: "mrkdwn", Text: slackCode(n.Call.Input), Verbatim: new(true)}})
	if lines := slackWhy(n); len(lines) > 0 {
		add(slackBlock{Type: "context", Elements: lines})
	}
	if buttons := slackButtons(n.Links); len(buttons) > 0 {
		add(slackBlock{Type: "actions", Elements: buttons})
	}
	return strictjson.Marshal(m)
}

func plainText(s string, limit int) *slackText {
	return &slackText{Type: "plain_text", Text: slackEscape(s, limit), Emoji: new(false)}
}

// slackWhy has the reason, the required approvers and the deadline, or the outcome.
func slackWhy(n *Notice) []slackElement {
	var lines []string
	if n.isRequest() {
		lines = append(lines, asked.Why(n.Call)...)
		for _, need := range asked.Needs(n.Call) {
			lines = append(lines, "Approvals: "+need)
		}
		if n.Waiting != nil && !n.Waiting.Ends.IsZero() {
			lines = append(lines, "Denied without approval by "+n.Waiting.Ends.UTC().Format("2006-01-02 15:04 MST"))
		}
		lines = append(lines, "Requested by "+asked.Origin(n.Call))
	} else {
		lines = append(lines, slackOutcome(n))
	}
	var out []slackElement
	for _, l := range lines[:min(len(lines), slackLines)] {
		out = append(out, slackElement{Type: "plain_text", Text: slackEscape(reveal.Line(shorten(l)), slackContext), Emoji: new(false)})
	}
	return out
}

func slackOutcome(n *Notice) string {
	c := n.Call
	text := "Ended"
	if c.Result != nil {
		text = "Result: " + string(c.Result.State)
	}
	if asked.WasAsked(c) {
		if v, ok := asked.LastVote(c); ok {
			text += ", " + asked.Said(v) + " by " + asked.Who(v.By)
		}
	}
	return text
}

func slackButtons(l *LinkSet) []slackElement {
	if l == nil {
		return nil
	}
	var out []slackElement
	for _, b := range []struct{ label, url, style, id string }{
		{"Approve…", l.Approve, "primary", "approve"}, {"Reject…", l.Reject, "danger", "reject"}, {"Open", l.Request, "", "open"},
	} {
		if b.url != "" && len(b.url) <= slackURL {
			out = append(out, slackElement{Type: "button", Text: slackText{Type: "plain_text", Text: b.label}, URL: b.url, Style: b.style, ActionID: "askance_" + b.id})
		}
	}
	return out
}

// slackCode shows arguments as code. A backtick occurs only in JSON strings, where its escape is
// equivalent and does not end the code.
func slackCode(input string) string {
	text := reveal.Text(strings.ReplaceAll(reveal.Escape(shorten(input)), "`", `\u0060`))
	if strings.TrimSpace(text) == "" {
		text = "(nothing to show)"
	}
	return "```\n" + slackEscape(text, slackSection-10) + "\n```"
}

// shorten cuts a text, but never to less than what is shown of it.
func shorten(s string) string {
	if len(s) <= 2*slackSection {
		return s
	}
	return strings.ToValidUTF8(s[:2*slackSection], "")
}

var slackEntities = map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;"}

// slackEscape escapes the three special characters of Slack and cuts the result to
// limit bytes.
func slackEscape(s string, limit int) string {
	const more = " …"
	var b strings.Builder
	safe := 0 // the length at which the mark still fits
	for _, r := range s {
		e, special := slackEntities[r]
		if !special {
			e = string(r)
		}
		if b.Len()+len(e) > limit {
			return b.String()[:safe] + more
		}
		b.WriteString(e)
		if b.Len()+len(more) <= limit {
			safe = b.Len()
		}
	}
	if b.Len() == 0 { // Slack refuses an empty text
		return " "
	}
	return b.String()
}
