package webhook

import (
	"strings"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
)

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
