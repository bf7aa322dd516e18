package toolcall

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Redacted gives the approval request as those see it who may not see what rules
// redact. Its digest is that of the whole approval request. An approval request that hides
// nothing, or is redacted already, is returned as it is.
func (q ApprovalRequest) Redacted() ApprovalRequest {
	if len(q.Hidden) > 0 && q.Salt != "" {
		q.Input, q.Salt = conceal(q.Input, q.Hidden, q.Salt), ""
	}
	return q
}

// Revealed gives arguments that a reader of the redacted approval request edited,
// with the hidden values back in their places.
func (q ApprovalRequest) Revealed(edited string) (string, error) {
	if len(q.Hidden) == 0 || q.Salt == "" {
		return edited, nil
	}
	out, err := reveal(edited, q.Input, q.Hidden, q.Salt)
	if err != nil {
		return "", &message.Error{Code: message.CodeInvalid, What: err.Error(), Hint: "leave marks of hidden values where they are, or write another value over them"}
	}
	return out, nil
}

// Hides reports whether rules redact anything of the call's arguments.
func (c *Call) Hides() bool { return len(c.hidden()) > 0 }

func (c *Call) hidden() []string {
	if c.Request == nil {
		return c.Redact
	}
	return slices.Concat(c.Request.Hidden, c.Redact)
}

// Redacted gives the call as those see it who may not see what rules redact:
// the arguments carry commitments, and what could show a value in another
// way is left out. The call itself is not changed; one that hides nothing is
// returned as it is.
func (c *Call) Redacted() *Call {
	paths := c.hidden()
	if len(paths) == 0 {
		return c
	}
	d := c.Clone()
	d.Input, d.Proposal = conceal(c.Input, paths, ""), ""
	if q := c.Request; q != nil {
		shown := q.Redacted()
		if q.Input == c.Input && len(q.Hidden) > 0 {
			d.Input = shown.Input
		}
		d.Request = &shown
	}
	texts := hiddenTexts(c.Input, paths)
	d.Result, d.Denial = hideInResult(c.Result, texts), c.Denial.redacted(texts)
	if c.Returned != nil {
		r := *c.Returned
		r.Reason = hideInResult(&message.ToolResultBlock{Output: message.Content{Text: r.Reason}}, texts).Output.Text
		d.Returned = &r
	}
	if c.Decision != nil && c.Decision.Budget != nil {
		decision := *c.Decision
		decision.Budget = &BudgetUse{ID: c.Decision.Budget.ID} // the amount is an argument
		d.Decision = &decision
	}
	d.Suggested, d.Remember, d.StandingApprovals = nil, nil, nil // patterns are made of arguments
	d.Votes = slices.Clone(c.Votes)
	for i := range d.Votes {
		d.Votes[i].Rules, d.Votes[i].Remember = nil, nil
	}
	if c.Cause == string(CauseRefuse) && c.Result != nil { // it says what is wrong with which value
		r := *c.Result
		r.Output = message.Content{Text: hiddenRefusal}
		d.Result = &r
	}
	return d
}

// resultDomain keeps the HMAC of a result's digest from being any other HMAC.
const resultDomain = "askance-result-v1\x00"

// DigestResult is "sha256:" and the SHA-256 of what a worker says with a result, and that
// text.
func DigestResult(b *message.ToolResultBlock) (digest string, body []byte, err error) {
	body, err = strictjson.Marshal(struct {
		Output   message.Content         `json:"output"`
		State    message.ToolResultState `json:"state"`
		Metadata map[string]any          `json:"metadata"`
	}{b.Output, b.State, b.Metadata})
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:]), body, err
}

// SealResult is what is kept of the digest of the call's result, "sha256:…": the
// digest itself or, of a call that hides arguments, "hmac-sha256:…" of it under
// the salt of the approval request.
func (c *Call) SealResult(digest string) string {
	q := c.Request
	if q == nil || len(q.Hidden) == 0 || q.Salt == "" || digest == "" {
		return digest
	}
	m := hmac.New(sha256.New, []byte(q.Salt))
	m.Write([]byte(resultDomain + digest)) // never fails
	return "hmac-sha256:" + hex.EncodeToString(m.Sum(nil))
}

// IsResult reports whether digest is that of the call's result.
func (c *Call) IsResult(digest string) bool {
	return digest != "" && (c.ResultDigest == c.SealResult(digest) || c.ResultDigest == digest) // bare in event records of an earlier release
}

// minHidden is how long a hidden text must be to be looked for in a result:
// a shorter one would be found where it was not meant.
const minHidden = 4

// hiddenDepth is how deep a hidden value is looked into: deeper than what an
// input may be.
const hiddenDepth = 64

// hiddenTexts are the hidden values as a tool may repeat them.
func hiddenTexts(input string, paths []string) []string {
	var out []string
	for _, s := range spots(input, paths) {
		out = appendTexts(out, []byte(input[s.start:s.end]), hiddenDepth)
	}
	out = slices.DeleteFunc(out, func(t string) bool { return len(t) < minHidden })
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }) // one may begin another
	return slices.Compact(out)
}

// appendTexts adds the texts of a hidden value: itself and, of an object or an
// array, what is in it, to a depth.
func appendTexts(out []string, value []byte, depth int) []string {
	if text, err := strictjson.Text(value); err == nil {
		out = append(out, text)
	}
	out = append(out, strings.Trim(string(value), `"`))
	if depth == 0 {
		return out
	}
	var parts []strictjson.Member
	switch strictjson.KindOf(value) {
	case "object":
		parts, _ = strictjson.Members(value) // of what is none, nothing more is known
	case "array":
		parts, _ = strictjson.Items(value)
	}
	for _, p := range parts {
		if kind := strictjson.KindOf(p.Value); kind != "boolean" && kind != "null" { // they say nothing, and are everywhere
			out = appendTexts(out, p.Value, depth-1)
		}
	}
	return out
}

// hideInResult gives the result without literal repetitions of the texts. A tool
// that turns a value into another text is not seen through.
func hideInResult(b *message.ToolResultBlock, texts []string) *message.ToolResultBlock {
	if b == nil || len(texts) == 0 {
		return b
	}
	var pairs []string
	for _, t := range texts {
		pairs = append(pairs, t, hiddenMark+"]")
	}
	swap := strings.NewReplacer(pairs...)
	out := *b
	out.Output.Text = swap.Replace(b.Output.Text)
	out.Output.Blocks = slices.Clone(b.Output.Blocks)
	for i, block := range out.Output.Blocks {
		switch block := block.(type) {
		case *message.TextBlock:
			shown := *block
			shown.Text = swap.Replace(block.Text)
			out.Output.Blocks[i] = &shown
		case *message.DataBlock:
			out.Output.Blocks[i] = hideInData(block, swap)
		default: // results hold no other kinds
		}
	}
	if b.Metadata != nil {
		out.Metadata, _ = replaceTexts(swap, b.Metadata).(map[string]any)
	}
	return &out
}

// hideInData gives the block with the texts in its name and its address replaced.
func hideInData(b *message.DataBlock, swap *strings.Replacer) *message.DataBlock {
	out := *b
	if b.Name != nil {
		name := swap.Replace(*b.Name)
		out.Name = &name
	}
	if src, is := b.Source.(*message.URLSource); is {
		if url := swap.Replace(src.URL); url != src.URL {
			out.Source = &message.URLSource{URL: hiddenURL, MediaType: src.MediaType}
		}
	}
	return &out
}

// hiddenURL stands for an address that has a hidden value in it.
const hiddenURL = "about:redacted"

// replaceTexts gives a JSON value with the texts in it replaced; it is copied.
func replaceTexts(swap *strings.Replacer, value any) any {
	switch v := value.(type) {
	case string:
		return swap.Replace(v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, m := range v {
			out[swap.Replace(k)] = replaceTexts(swap, m)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, m := range v {
			out[i] = replaceTexts(swap, m)
		}
		return out
	case nil, bool:
		return v
	}
	text := fmt.Sprint(value) // a number, which may be what is hidden
	if f, is := value.(float64); is {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	if shown := swap.Replace(text); shown != text {
		return shown
	}
	return value
}

// hiddenRefusal stands for what is wrong with a hidden argument.
const hiddenRefusal = "the input was refused; why is hidden with the arguments"

// Redacted gives the event record as those see it who may not see what rules redact.
// The event record itself is not changed. It is what exports show; what proves an event record
// is made of the event record itself.
func (f *EventRecord) Redacted() *EventRecord {
	if f.Call == nil || !f.Call.Hides() {
		return f
	}
	g := *f
	g.Call = f.Call.Redacted()
	if n := f.Note; n != nil && n.Result != nil {
		note := *n
		note.Result = hideInResult(n.Result, hiddenTexts(f.Call.Input, f.Call.hidden()))
		g.Note = &note
	}
	return &g
}
