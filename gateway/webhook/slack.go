package webhook

import (
	"strings"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
)

// What Slack takes, in characters; bytes are never fewer.
const (
	slackHeader  = 150
	slackSection = 2900
	slackContext = 1000
	slackLines   = 8 // of a context
	slackURL     = 3000
)

// slackMessage is the payload of an incoming webhook.
type slackMessage struct {
	// Text is what notifications show; Slack reads no marks in it.
	Text   string       `json:"text"`
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
	Type string `json:"type"`
	Text string `json:"text"`
	// Verbatim keeps Slack from finding names and links in the text.
	Verbatim *bool `json:"verbatim,omitzero"`
	Emoji    *bool `json:"emoji,omitzero"`
}

// slackElement is a button, or a text of a context.
type slackElement struct {
	Type     string `json:"type"`
	Text     any    `json:"text,omitzero"` // a slackText of buttons, a string of texts
	Emoji    *bool  `json:"emoji,omitzero"`
	URL      string `json:"url,omitzero"`
	Style    string `json:"style,omitzero"`
	ActionID string `json:"action_id,omitzero"`
}

// slack writes a notice for Slack. Nothing that comes from a call is read as a
// mark by Slack: plain text everywhere, and code in which nothing can end it.
func slack(n *Notice) ([]byte, error) {
	title := map[string]string{TypeRequestOpened: "Approval needed", TypeRequestEscalated: "Approval still needed", TypeCallFinished: "Finished"}[n.Type]
	title += ": " + reveal.Line(begin(n.Call.Tool))
	m := slackMessage{Text: slackEscape(title, slackHeader), Blocks: []slackBlock{{Type: "header", Text: plainText(title, slackHeader)}}}
	add := func(b slackBlock) { m.Blocks = append(m.Blocks, b) }
	if n.Call.Request != nil && n.asks() {
		text := reveal.Text(begin(n.Call.Request.Text))
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

// slackWhy says why it asks, who must agree and until when; or what came of it.
func slackWhy(n *Notice) []slackElement {
	var lines []string
	if n.asks() {
		lines = append(lines, asked.Why(n.Call)...)
		for _, need := range asked.Needs(n.Call) {
			lines = append(lines, "Needs "+need)
		}
		if n.Waiting != nil && !n.Waiting.Ends.IsZero() {
			lines = append(lines, "Denied if nobody has agreed by "+n.Waiting.Ends.UTC().Format("2006-01-02 15:04 MST"))
		}
		lines = append(lines, "Asked by "+asked.Origin(n.Call))
	} else {
		lines = append(lines, slackOutcome(n))
	}
	var out []slackElement
	for _, l := range lines[:min(len(lines), slackLines)] {
		out = append(out, slackElement{Type: "plain_text", Text: slackEscape(reveal.Line(begin(l)), slackContext), Emoji: new(false)})
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

// slackCode shows arguments as code. A backtick in JSON stands inside of a
// string, where its escape says the same and ends nothing.
func slackCode(input string) string {
	text := reveal.Text(strings.ReplaceAll(reveal.Escape(begin(input)), "`", `\u0060`))
	if strings.TrimSpace(text) == "" {
		text = "(nothing to show)"
	}
	return "```\n" + slackEscape(text, slackSection-10) + "\n```"
}

// begin is enough of a text for what is shown of it.
func begin(s string) string {
	if len(s) <= 2*slackSection {
		return s
	}
	return strings.ToValidUTF8(s[:2*slackSection], "")
}

var slackEntities = map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;"}

// slackEscape takes their meaning from the three characters that have one in
// Slack, and cuts what is longer than limit bytes afterwards.
func slackEscape(s string, limit int) string {
	const more = " …"
	var b strings.Builder
	safe := 0 // up to here there is room for more
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
	if b.Len() == 0 { // Slack takes no empty text
		return " "
	}
	return b.String()
}
