package mcp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// resultMember is the member of a result's metadata with the MCP result as text; errorMember has
// an error object.
const (
	resultMember = "mcp_result"
	errorMember  = "mcp_error"
)

// Bounds of what the journal stores of a result.
const (
	maxStoredResult = 200 << 10
	maxStoredText   = 64 << 10
	maxStored       = toolcall.MaxOutputBytes - 16<<10 // of both, as JSON
)

func textBlock(text string) map[string]string { return map[string]string{"type": "text", "text": text} }

// refusal is an error result, which the model can read.
func refusal(text string, call *toolcall.Call) *outcome {
	o := object{{Name: "content", Value: encode([]any{textBlock(text)})}, {Name: "isError", Value: []byte("true")}}
	if call != nil {
		decision := map[string]any{"call": string(call.Call)}
		if call.Denial != nil {
			decision["denial"] = call.Denial
		}
		if call.Decision != nil && call.Decision.Rule != "" {
			decision["rule"] = call.Decision.Rule
		}
		o = o.with("_meta", encode(map[string]any{metaDecision: decision}))
	}
	return &outcome{result: o.bytes()}
}

// resultBlock returns an outcome in the form that the journal stores.
func resultBlock(call *toolcall.Call, o *outcome) message.ToolResultBlock {
	r := objectOf(o.result)
	state, text, member, raw := message.ToolResultSuccess, contentText(r), resultMember, o.result
	if string(r.get("isError")) == "true" {
		state = message.ToolResultError
	}
	if o.err != nil {
		state, text, member, raw = message.ToolResultError, "the MCP server returned the error "+o.err.Error(), errorMember, o.err.bytes()
	}
	text = cutText(text, maxStoredText)
	block := toolcall.TextResult(call, state, text, time.Now())
	if len(raw) <= maxStoredResult && len(quote(text))+len(quote(string(raw))) <= maxStored {
		block.Metadata[member] = string(raw)
	}
	return block
}

func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + fmt.Sprintf("\n[%d more bytes]", len(text)-most)
}

func contentText(result object) string {
	var parts []string
	for _, item := range itemsOf(result.get("content")) {
		o := objectOf(item)
		switch kind := o.text("type"); kind {
		case "text":
			parts = append(parts, o.text("text"))
		case "resource_link":
			parts = append(parts, "["+o.text("uri")+"]")
		default:
			parts = append(parts, fmt.Sprintf("[%s %s, %d bytes]", kind, o.text("mimeType"), len(item)))
		}
	}
	if len(parts) == 0 {
		if s := result.get("structuredContent"); s != nil {
			return string(s)
		}
	}
	return strings.Join(parts, "\n")
}

// outcomeOf returns what a client gets for a finished call.
func (h *held) outcomeOf(call *toolcall.Call) *outcome {
	text := ""
	if call.Result != nil {
		marks := strings.NewReplacer("<system-reminder>", "", "</system-reminder>", "") // for models, in texts of askance
		text = strings.TrimSpace(marks.Replace(call.Result.Output.String()))
	}
	switch toolcall.Cause(call.Cause) {
	case toolcall.CauseDeny:
		if d := call.Decision; d != nil {
			text = cmp.Or(d.Message, d.Reason)
		}
		return refusal("denied: "+text, call)
	case toolcall.CauseReject:
		feedback := ""
		for _, v := range call.Votes {
			if v.Kind == toolcall.ResponseReject && v.Feedback != "" {
				feedback = ": " + v.Feedback
			}
		}
		return refusal("rejected by a person"+feedback, call)
	case toolcall.CauseExpire:
		return refusal("expired: no approver responded in time. The call did not run", call)
	case toolcall.CauseInterrupt:
		if call.Begun > 0 {
			text = "It may have taken effect: find out before you repeat it"
		}
		return refusal("interrupted: the call was stopped. "+text, call)
	case toolcall.CauseRespond:
		return h.answered(call, text)
	case toolcall.CauseResult:
		if o := storedOutcome(call); o != nil {
			return h.addNote(call, o)
		}
	}
	if call.Result == nil || call.Result.State != message.ToolResultSuccess {
		return refusal(text, call)
	}
	return &outcome{result: encode(map[string]any{"content": []any{textBlock(text)}})}
}

// storedOutcome reads the MCP result from the journal, or returns nil if it was not stored.
func storedOutcome(call *toolcall.Call) *outcome {
	if call.Result == nil {
		return nil
	}
	if raw, ok := call.Result.Metadata[resultMember].(string); ok && strictjson.Check([]byte(raw)) == nil {
		return &outcome{result: json.RawMessage(raw)}
	}
	if raw, ok := call.Result.Metadata[errorMember].(string); ok && strictjson.Check([]byte(raw)) == nil {
		return &outcome{err: readError(json.RawMessage(raw))}
	}
	return nil
}

// addNote tells the model that its arguments were changed.
func (h *held) addNote(call *toolcall.Call, o *outcome) *outcome {
	if o.err != nil || h.g.cfg.HideEdits || !slices.ContainsFunc(call.Votes, func(v toolcall.Vote) bool { return v.Edited }) {
		return o
	}
	r := objectOf(o.result)
	note := encode(textBlock("ran with changed arguments: " + call.Input))
	return &outcome{result: r.with("content", arrayOf(append([]json.RawMessage{note}, itemsOf(r.get("content"))...))).bytes()}
}

// answered returns the result that a person supplied in place of the tool. The output schema of
// the server is not checked: clients do not see it, and a hostile one can keep a checker busy forever.
func (h *held) answered(call *toolcall.Call, text string) *outcome {
	if call.Result != nil {
		text = call.Result.Output.String()
	}
	r := object{{Name: "content", Value: encode([]any{textBlock(text)})}, {Name: "isError", Value: []byte("false")}}
	if h.tool != nil && h.tool.definition.get("outputSchema") != nil && strictjson.KindOf([]byte(text)) == "object" && strictjson.Check([]byte(text)) == nil {
		r = r.with("structuredContent", json.RawMessage(text))
	}
	return &outcome{result: r.bytes()}
}
