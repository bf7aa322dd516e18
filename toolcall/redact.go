package toolcall

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/redact"
)

// Redacted returns the approval request for people who may not see what rules redact. Its
// digest is the digest of the whole approval request. If nothing is hidden, or it is
// already redacted, it is returned unchanged.
func (r ApprovalRequest) Redacted() ApprovalRequest {
	if len(r.Hidden) > 0 && r.Salt != "" {
		r.Input, r.Salt = conceal(r.Input, r.Hidden, r.Salt), ""
	}
	return r
}

// Revealed returns arguments that a reader of the redacted approval request edited, with
// the hidden values put back.
func (r ApprovalRequest) Revealed(edited string) (string, error) {
	if len(r.Hidden) == 0 || r.Salt == "" {
		return edited, nil
	}
	out, err := reveal(edited, r.Input, r.Hidden, r.Salt)
	if err != nil {
		return "", &message.Error{Code: message.CodeInvalid, What: err.Error(), Hint: "leave the marks of hidden values where they are, or replace them with other values"}
	}
	return out, nil
}

// Hides reports whether rules redact any of the call's arguments.
func (c *Call) Hides() bool { return len(c.hidden()) > 0 }

func (c *Call) hidden() []string {
	if c.Request == nil {
		return c.Redact
	}
	return slices.Concat(c.Request.Hidden, c.Redact)
}

// Redacted returns the call for people who may not see what rules redact: the arguments
// contain commitments, and anything else that could show a hidden value is left out. It
// does not change the call; one that hides nothing is returned unchanged.
func (c *Call) Redacted() *Call {
	paths := c.hidden()
	if len(paths) == 0 {
		return c
	}
	d := c.Clone()
	d.Input, d.Proposal = conceal(c.Input, paths, ""), ""
	if req := c.Request; req != nil {
		shown := req.Redacted()
		if req.Input == c.Input && len(req.Hidden) > 0 {
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
	if c.Cause == string(CauseRefuse) && c.Result != nil { // the result describes an invalid value
		r := *c.Result
		r.Output = message.Content{Text: hiddenRefusal}
		d.Result = &r
	}
	return d
}

// resultDomain separates the HMAC of a result's digest from all other HMACs.
const resultDomain = "askance-result-v1\x00"

// DigestResult returns "sha256:" and the SHA-256 of what a worker reports in a result, and the
// JSON of the result. The digest does not cover ids and times of blocks: if a worker sends
// none, each request gets others.
func DigestResult(b *message.ToolResultBlock) (digest string, body []byte, err error) {
	if b.Output.Blocks == nil && len(b.Metadata) == 0 { // as the general way writes it
		body, err = strictjson.AppendString(append(make([]byte, 0, len(b.Output.Text)+64), `{"output":`...), b.Output.Text)
		if err == nil {
			body, err = strictjson.AppendString(append(body, `,"state":`...), string(b.State))
		}
		body = append(body, `,"metadata":{}}`...)
		return message.Digest(body), body, err
	}
	type report struct {
		Output   message.Content         `json:"output"`
		State    message.ToolResultState `json:"state"`
		Metadata map[string]any          `json:"metadata"`
	}
	r := report{b.Output, b.State, b.Metadata}
	if body, err = strictjson.Marshal(r); err != nil || !b.Output.IsList() {
		return message.Digest(body), body, err
	}
	r.Output = b.Output.Clone()
	for _, block := range r.Output.Blocks {
		switch b := block.(type) {
		case *message.TextBlock:
			b.ID, b.CreatedAt, b.FinishedAt = "", "", nil
		case *message.DataBlock:
			b.ID, b.CreatedAt, b.FinishedAt = "", "", nil
		default: // other types have no such members that we know
		}
	}
	text, err := strictjson.Marshal(r)
	return message.Digest(text), body, err
}

// SealResult returns the stored form of the digest of the call's result, "sha256:…": the
// digest itself or, for a call that hides arguments, "hmac-sha256:…" of it under the salt
// of the approval request.
func (c *Call) SealResult(digest string) string {
	req := c.Request
	if req == nil || len(req.Hidden) == 0 || req.Salt == "" || digest == "" {
		return digest
	}
	m := hmac.New(sha256.New, []byte(req.Salt))
	m.Write([]byte(resultDomain + digest)) // never fails
	return "hmac-sha256:" + hex.EncodeToString(m.Sum(nil))
}

// IsResult reports whether digest is the digest of the call's result.
func (c *Call) IsResult(digest string) bool {
	return digest != "" && (c.ResultDigest == c.SealResult(digest) || c.ResultDigest == digest) // unsealed in records of an earlier release
}

// minHidden is the shortest hidden text that is searched for in a result: shorter ones would
// match by accident.
const minHidden = 4

// hiddenDepth bounds the nesting of a hidden value that is searched; an input cannot be
// nested deeper.
const hiddenDepth = 64

// hiddenTexts returns the hidden values in the forms in which a tool may repeat them.
func hiddenTexts(input string, paths []string) []string {
	var out []string
	for _, s := range spots(input, paths) {
		out = appendTexts(out, []byte(input[s.start:s.end]), hiddenDepth)
	}
	out = slices.DeleteFunc(out, func(t string) bool { return len(t) < minHidden })
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }) // longest first, because one may be the beginning of another
	return slices.Compact(out)
}

// appendTexts appends the texts of a hidden value: the value itself and, for an object or an
// array, what it contains, up to a depth.
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
		parts, _ = strictjson.Members(value) // if it cannot be decoded, it has no parts
	case "array":
		parts, _ = strictjson.Items(value)
	}
	for _, p := range parts {
		if kind := strictjson.KindOf(p.Value); kind != "boolean" && kind != "null" { // they reveal nothing, and occur everywhere
			out = appendTexts(out, p.Value, depth-1)
		}
	}
	return out
}

// hideInResult returns the result without repetitions of the texts, literal or in base64. It
// cannot detect a tool that turns a value into another text.
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
	out.Output.Text = hideText(swap, b.Output.Text)
	out.Output.Blocks = slices.Clone(b.Output.Blocks)
	for i, block := range out.Output.Blocks {
		switch block := block.(type) {
		case *message.TextBlock:
			shown := *block
			shown.Text = hideText(swap, block.Text)
			out.Output.Blocks[i] = &shown
		case *message.DataBlock:
			out.Output.Blocks[i] = hideInData(block, swap)
		case *message.UnknownBlock:
			out.Output.Blocks[i] = hideInUnknown(block, swap)
		default: // results hold no other kinds
		}
	}
	if b.Metadata != nil {
		out.Metadata, _ = replaceTexts(swap, b.Metadata).(map[string]any)
	}
	return &out
}

// base64Run matches what can be base64 of a hidden text, which has at least minHidden bytes. Lines may
// break it, as in PEM and MIME, also in JSON.
var base64Run = regexp.MustCompile(`[A-Za-z0-9+/_-](?:(?:(?:\r?\n|(?:\\r)?\\n)[ \t]*)?[A-Za-z0-9+/_-]){5,}`)

// toBase64 turns base64url and lines into base64 without lines.
var toBase64 = strings.NewReplacer("-", "+", "_", "/", `\r`, "", `\n`, "", "\r", "", "\n", "", " ", "", "\t", "")

// hideText returns a text with the texts in it replaced, also those in base64.
func hideText(swap *strings.Replacer, text string) string {
	return base64Run.ReplaceAllStringFunc(swap.Replace(text), func(run string) string {
		letters := toBase64.Replace(run)
		for skip := range 4 { // a path before the base64 consists of the same letters
			part := letters[skip:]
			if len(part)%4 == 1 {
				part = part[:len(part)-1]
			}
			raw, err := base64.RawStdEncoding.DecodeString(part)
			if found := string(raw); err == nil && swap.Replace(found) != found {
				return hiddenMark + "]"
			}
		}
		return run
	})
}

// hideInData returns the block with the texts in its name, type and address replaced, or only a
// mark if one is in its bytes, or they cannot be read: a worker makes data of text that is not
// UTF-8.
func hideInData(b *message.DataBlock, swap *strings.Replacer) message.Block {
	out := *b
	switch src := b.Source.(type) {
	case *message.Base64Source:
		raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(src.Data, "="))
		if text := string(raw); err != nil || swap.Replace(text) != text {
			return &message.TextBlock{Text: hiddenMark + "]"}
		}
		out.Source = &message.Base64Source{Data: src.Data, MediaType: swap.Replace(src.MediaType)}
	case *message.URLSource:
		address := src.URL
		if hideText(swap, address) != address || len(address) >= 5 && strings.EqualFold(address[:5], "data:") {
			address = hiddenURL
		}
		out.Source = &message.URLSource{URL: address, MediaType: swap.Replace(src.MediaType)}
	}
	if b.Name != nil {
		name := hideText(swap, *b.Name)
		out.Name = &name
	}
	return &out
}

// hideInUnknown returns the block with the texts in its members replaced, or only a mark if it
// cannot be read.
func hideInUnknown(b *message.UnknownBlock, swap *strings.Replacer) message.Block {
	members, err := strictjson.Object(b.Raw, strictjson.MaxBytes(len(b.Raw)), strictjson.KeepBigIntegers())
	if err == nil {
		shown := replaceTexts(swap, members)
		if reflect.DeepEqual(shown, any(members)) {
			return b
		}
		var raw []byte
		if raw, err = strictjson.Marshal(shown); err == nil {
			out := new(message.UnknownBlock)
			if err = out.UnmarshalJSON(raw); err == nil {
				return out
			}
		}
	}
	return &message.TextBlock{Text: hiddenMark + "]"}
}

// hiddenURL replaces an address that contains a hidden value.
const hiddenURL = "about:redacted"

// replaceTexts returns a copy of a JSON value with the texts in it replaced.
func replaceTexts(swap *strings.Replacer, value any) any {
	switch v := value.(type) {
	case string:
		return hideText(swap, v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, m := range v {
			out[hideText(swap, k)] = replaceTexts(swap, m)
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
	text := fmt.Sprint(value) // a number, which may be a hidden value
	if f, is := value.(float64); is {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	if shown := swap.Replace(text); shown != text {
		return shown
	}
	return value
}

// hiddenRefusal replaces the description of an invalid hidden argument. It does not change:
// journals have the hash of the redacted form.
const hiddenRefusal = "the input was refused; why is hidden with the arguments"

// Redacted returns the event record for people who may not see what rules redact. It does
// not change the event record. Exports show the redacted form; proofs are made from the
// event record itself.
func (r *EventRecord) Redacted() *EventRecord {
	if r.Call == nil || !r.Call.Hides() {
		return r
	}
	g := *r
	g.Call = r.Call.Redacted()
	if n := r.Note; n != nil && n.Result != nil {
		note := *n
		note.Result = hideInResult(n.Result, hiddenTexts(r.Call.Input, r.Call.hidden()))
		g.Note = &note
	}
	return &g
}

// What rules redact is hidden from people and records, but the approval request's
// digest still covers it: the digest is computed from the arguments with a commitment
// in place of each hidden value. A commitment is an HMAC keyed with the approval
// request's salt, so a short secret cannot be guessed from it. With the salt and the
// value anyone can prove that they belong to the digest.

// hiddenMark begins the text that replaces a hidden value.
const hiddenMark = "[redacted"

// hiddenDomain separates commitments from other HMACs.
const hiddenDomain = "askance-hidden-v1\x00"

// spot is a hidden value within a JSON text.
type spot struct {
	start, end int
	place      string // the path to this value
}

// conceal returns the arguments with the values at the paths replaced: by commitments
// keyed with the salt, or by a bare mark if salt is "". All other bytes are unchanged.
// Arguments that cannot be parsed, or are not an object, are hidden as a whole.
func conceal(input string, paths []string, salt string) string {
	if len(paths) == 0 {
		return input
	}
	var b strings.Builder
	at := 0
	for _, s := range spots(input, paths) {
		b.WriteString(input[at:s.start])
		b.WriteString(strconv.Quote(mark(input[s.start:s.end], s.place, salt)))
		at = s.end
	}
	b.WriteString(input[at:])
	return b.String()
}

// mark returns the text that replaces a value; it needs no escaping in JSON.
func mark(value, place, salt string) string {
	if salt == "" {
		return hiddenMark + "]"
	}
	m := hmac.New(sha256.New, []byte(salt))
	m.Write([]byte(hiddenDomain + place + "\x00" + value)) // never fails
	return hiddenMark + " hmac-sha256:" + hex.EncodeToString(m.Sum(nil)) + "]"
}

// reveal is the inverse of conceal for arguments that a reader of the concealed ones
// edited: each mark becomes the value that original has in the same place. A mark in
// any other place is an error, because its reader cannot see what moves.
func reveal(edited, original string, paths []string, salt string) (string, error) {
	if edited == conceal(original, paths, salt) {
		return original, nil
	}
	values := map[string]string{} // by mark and place
	var marks []string
	for _, s := range spots(original, paths) {
		value := original[s.start:s.end]
		m := mark(value, s.place, salt)
		values[strconv.Quote(m)+s.place] = value
		marks = append(marks, m)
	}
	var b strings.Builder
	at := 0
	for _, s := range spots(edited, paths) {
		b.WriteString(edited[at:s.start])
		value := edited[s.start:s.end]
		if known, is := values[value+s.place]; is {
			value = known
		}
		b.WriteString(value)
		at = s.end
	}
	b.WriteString(edited[at:])
	if !strings.Contains(original, hiddenMark) {
		marks = append(marks, hiddenMark)
	}
	if slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(b.String(), m) }) {
		return "", errors.New("a mark of a hidden value stands where that value does not belong")
	}
	return b.String(), nil
}

// spots returns the hidden values of a JSON text, in order.
func spots(input string, paths []string) []spot {
	whole := []spot{{0, len(input), "args"}}
	if strictjson.KindOf([]byte(input)) != "object" || strictjson.Check([]byte(input), strictjson.MaxBytes(len(input)+1)) != nil {
		return whole
	}
	var into []redact.Path
	for _, text := range paths {
		p, err := redact.Parse(text)
		if err != nil || p.Root != "args" || len(p.Steps) == 0 {
			return whole
		}
		into = append(into, p)
	}
	found, err := appendSpots(nil, []byte(input), 0, "args", redact.Below(into...))
	if err != nil {
		return whole
	}
	return found
}

// appendSpots searches one value, which begins at offset.
func appendSpots(out []spot, value []byte, offset int, place string, paths redact.Paths) ([]spot, error) {
	var parts []strictjson.Member
	var err error
	array := strictjson.KindOf(value) == "array"
	if array {
		parts, err = strictjson.Items(value)
	} else {
		parts, err = strictjson.Members(value)
	}
	for i, p := range parts {
		name, start, leaf := p.Name, offset+p.Offset, isLeaf(p.Value)
		var hidden bool
		var below redact.Paths
		if array {
			name = strconv.Itoa(i)
			hidden, below = paths.Element(i, leaf)
		} else {
			hidden, below = paths.Member(name, leaf)
		}
		at := place + "[" + strconv.Quote(name) + "]"
		switch {
		case hidden:
			out = append(out, spot{start, start + len(p.Value), at})
		case len(below) > 0 && !leaf && err == nil:
			out, err = appendSpots(out, p.Value, start, at, below)
		}
	}
	return out, err
}

// isLeaf reports whether a value contains no other values.
func isLeaf(value []byte) bool {
	kind := strictjson.KindOf(value)
	return kind != "object" && kind != "array"
}
