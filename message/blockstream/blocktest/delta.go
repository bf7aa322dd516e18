package blocktest

import (
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/internal/object"
)

// readDelta tells deltas apart by type, or by the members that only one kind
// has. It refuses more than one kind at once, because clients look for each.
func readDelta(raw []byte) (blockstream.Delta, error) {
	r := object.Read(raw)
	t := r.TextOr("type", "")
	asks, decides, file := r.Has("action_requests"), r.Has("decisions"), r.Has("status")
	if n := count(t != "", asks, decides, file); n > 1 {
		r.Fail(strictjson.ErrType, "a delta of %d kinds at once", n)
	}
	switch {
	case r.Err() != nil:
		return nil, r.Err()
	case t == "text_delta":
		d := &blockstream.TextDelta{Text: r.TextOr("text", "")}
		r.May("extras", into(&d.Extras, readExtras))
		return d, r.Err()
	case t == "thinking_delta":
		return &blockstream.ThinkingDelta{Thinking: r.TextOr("thinking", "")}, r.Err()
	case asks:
		d := &blockstream.ApprovalDelta{TimeoutSeconds: readSeconds(r, "timeout_seconds")}
		r.May("action_requests", into(&d.Actions, readActions))
		r.May("review_configs", into(&d.ReviewConfigs, readReviewConfigs))
		return d, r.Err()
	case decides:
		d := &blockstream.DecisionsDelta{Decisions: []blockstream.Decision{}}
		r.Items("decisions", func(raw []byte) error {
			item, err := readDecision(raw)
			d.Decisions = append(d.Decisions, item)
			return err
		})
		return d, r.Err()
	case file:
		return &blockstream.FileDelta{Status: r.Text("status"), Message: r.TextOr("message", "")}, r.Err()
	default:
		return nil, strictjson.Wrong(strictjson.ErrType, "unknown delta %.60q", t)
	}
}

func count(kinds ...bool) (n int) {
	for _, k := range kinds {
		if k {
			n++
		}
	}
	return n
}

func readDecision(raw []byte) (blockstream.Decision, error) {
	r := object.Read(raw)
	r.Only("type", "tool_use_id", "edited_action", "message", "decided_by", "decided_at")
	d := blockstream.Decision{
		Type:      blockstream.DecisionType(r.Text("type")),
		ToolUseID: message.CallID(r.TextOr("tool_use_id", "")),
		Message:   r.TextOr("message", ""),
		DecidedBy: r.TextOr("decided_by", ""),
		DecidedAt: r.TextOr("decided_at", ""),
	}
	r.May("edited_action", func(raw []byte) error {
		e := object.Read(raw)
		e.Only("name", "args")
		d.Edited = &blockstream.EditedAction{Name: e.TextOr("name", ""), Args: e.Raw("args", "object")}
		return e.Err()
	})
	return d, r.Err()
}

func readExtras(raw []byte) (*blockstream.Extras, error) {
	r := object.Read(raw)
	return &blockstream.Extras{
		Subtype: blockstream.Subtype(r.TextOr("block_subtype", "")), Code: r.TextOr("code", ""), CanRetry: readBool(r, "can_retry", false),
		ErrorType: r.TextOr("error_type", ""), Details: r.Raw("details", "object"),
	}, r.Err()
}
