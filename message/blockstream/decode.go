package blockstream

import (
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/object"
)

// Everything in this file returns *strictjson.Error, with places seen from the
// value that was passed in.

func frame(raw []byte) (Frame, error) {
	r := object.Read(raw)
	t := FrameType(r.Text("type"))
	h := Header{EventID: r.TextOr("event_id", ""), MessageID: message.ReplyID(r.TextOr("message_id", ""))}
	if err := r.Err(); err != nil {
		return nil, err
	}
	switch t {
	case FrameMessageStart:
		return messageStart(r, h)
	case FrameMessageDelta:
		return messageDelta(r, h)
	case FrameMessageStop:
		return &MessageStop{Header: h, DurationMS: r.IntOr("duration_ms", 0)}, r.Err()
	case FrameBlockStart:
		f := &BlockStart{Header: h, Index: index(r)}
		r.Need("content_block", into(&f.Block, contentBlock))
		return f, r.Err()
	case FrameBlockDelta:
		f := &BlockDelta{Header: h, Index: index(r)}
		r.Need("delta", into(&f.Delta, delta))
		return f, r.Err()
	case FrameBlockStop:
		return &BlockStop{Header: h, Index: index(r), Final: r.BoolOr("is_final", false)}, r.Err()
	case FrameConnected:
		return &Connected{h}, nil
	case FrameAuthOK:
		return &AuthOK{h}, nil
	case FramePing:
		return &Ping{h}, nil
	case FramePong:
		return &Pong{h}, nil
	case FrameSubscribed:
		return subscribed(r, h)
	case FrameError:
		return &Error{Header: h, Code: ErrorCode(r.Text("code")), Message: r.TextOr("message", ""), ApprovalKey: r.TextOr("approval_key", "")}, r.Err()
	}
	return &UnknownFrame{Header: h, Kind: t, Raw: clone(raw)}, nil
}

// into makes a member decoder of a value decoder.
func into[T any](dst *T, decode func([]byte) (T, error)) func([]byte) error {
	return func(raw []byte) (err error) {
		*dst, err = decode(raw)
		return err
	}
}

// maxIndex keeps an index an int everywhere; no turn comes near it.
const maxIndex = 1 << 30

func index(r *object.Reader) int {
	i := r.Int("index")
	if i < 0 || i > maxIndex {
		r.Fail(strictjson.ErrType, "index %d", i)
	}
	return int(i)
}

func messageStart(r *object.Reader, h Header) (Frame, error) {
	f := &MessageStart{
		Header: h, Session: message.SessionID(r.Text("session_id")), Timestamp: r.Float("timestamp"),
		DisplayMode: DisplayMode(r.Text("display_mode")), NewFromShareLink: r.BoolOr("is_new_session_from_share", false),
	}
	if !f.DisplayMode.Valid() {
		r.Fail(strictjson.ErrType, "display_mode %.60q is none of agent, chat", string(f.DisplayMode))
	}
	return f, r.Err()
}

func messageDelta(r *object.Reader, h Header) (Frame, error) {
	f := &MessageDelta{Header: h}
	r.Need("delta", func(raw []byte) error {
		d := object.Read(raw)
		f.StopReason = d.TextOr("stop_reason", "")
		return d.Err()
	})
	return f, r.Err()
}

func subscribed(r *object.Reader, h Header) (Frame, error) {
	f := &Subscribed{Header: h, Session: message.SessionID(r.TextOr("session_id", "")), Status: SessionStatus(r.Text("status"))}
	if f.Status != StatusRunning && f.Status != StatusCompleted {
		r.Fail(strictjson.ErrType, "status %.60q is none of running, completed", string(f.Status))
	}
	return f, r.Err()
}

func contentBlock(raw []byte) (ContentBlock, error) {
	r := object.Read(raw)
	switch t := BlockType(r.Text("type")); {
	case r.Err() != nil:
		return nil, r.Err()
	case t == BlockThinking:
		return &Thinking{Thinking: r.TextOr("thinking", ""), Parent: parent(r)}, r.Err()
	case t == BlockText:
		return &Text{Text: r.TextOr("text", ""), Parent: parent(r), IsPart: r.BoolOr("is_part", false)}, r.Err()
	case t == BlockToolUse:
		return toolUse(r)
	case t == BlockToolResult:
		return toolResult(r)
	case t == BlockFileProcessing:
		return fileProcessing(r)
	case t == BlockApprovalRequest:
		b := &ApprovalRequest{ApprovalKey: r.Text("approval_key")}
		r.May("actions", into(&b.Actions, actions))
		r.May("review_configs", into(&b.ReviewConfigs, reviewConfigs))
		return b, r.Err()
	case t == BlockApprovalResult:
		return &ApprovalResult{ApprovalKey: r.TextOr("approval_key", "")}, r.Err()
	default:
		return &UnknownBlock{Kind: t, Raw: clone(raw)}, nil
	}
}

func parent(r *object.Reader) Parent {
	return Parent{Subagent: r.TextPtr("subagent"), ParentToolUseID: r.TextPtr("parent_tool_use_id")}
}

// toolUse reads a call; if it names its id twice, the two must be the same.
func toolUse(r *object.Reader) (ContentBlock, error) {
	b := &ToolUse{
		ID: message.CallID(r.Text("id")), Name: r.Text("name"), Label: r.TextOr("tool_content_message", ""),
		Input: r.Raw("input", "object"), Parent: parent(r),
	}
	if other := r.TextOr("tool_use_id", string(b.ID)); other != string(b.ID) {
		r.Fail(strictjson.ErrType, "tool_use_id is %.60q, id %.60q", other, string(b.ID))
	}
	return b, r.Err()
}

func toolResult(r *object.Reader) (ContentBlock, error) {
	b := &ToolResult{
		ToolUseID: message.CallID(r.Text("tool_use_id")), Name: r.TextOr("name", ""),
		Status: ResultStatus(r.Text("status")), Content: r.TextOr("content", ""), Parent: parent(r),
	}
	if r.Has("artifact") {
		b.Artifact = r.Raw("artifact", "")
	}
	if n := characters(b.Content); n > MaxContent {
		r.Fail(strictjson.ErrTooLarge, "content of %d characters, the limit is %d", n, MaxContent)
	}
	if b.Status != ResultSuccess && b.Status != ResultError {
		r.Fail(strictjson.ErrType, "status %.60q is none of success, error", string(b.Status))
	}
	return b, r.Err()
}

func fileProcessing(r *object.Reader) (ContentBlock, error) {
	b := &FileProcessing{Status: r.Text("status")}
	r.Items("files", func(raw []byte) error {
		f := object.Read(raw)
		b.Files = append(b.Files, File{URL: f.Text("url")})
		return f.Err()
	})
	return b, r.Err()
}

func actions(raw []byte) ([]Action, error) {
	list := []Action{}
	err := object.Each(raw, func(raw []byte) error {
		r := object.Read(raw)
		a := Action{
			Name: r.Text("name"), Args: r.Raw("args", "object"), ToolUseID: message.CallID(r.TextOr("tool_use_id", "")),
			Description: r.TextOr("description", ""),
		}
		r.Items("suggested_rules", func(raw []byte) error {
			var rule message.PermissionRule
			err := rule.UnmarshalJSON(raw)
			a.SuggestedRules = append(a.SuggestedRules, rule)
			return err
		})
		list = append(list, a)
		return r.Err()
	})
	return list, err
}

func reviewConfigs(raw []byte) ([]ReviewConfig, error) {
	var list []ReviewConfig
	err := object.Each(raw, func(raw []byte) error {
		r := object.Read(raw)
		list = append(list, ReviewConfig{RequireApproval: r.BoolOr("require_approval", true), Timeout: seconds(r, "timeout")})
		return r.Err()
	})
	return list, err
}

func seconds(r *object.Reader, name string) int64 {
	s := r.IntOr(name, 0)
	if s < 0 {
		r.Fail(strictjson.ErrType, "%s is negative", name)
	}
	return s
}

// delta tells deltas apart: by type where there is one, else by the members
// that only one kind has. More than one kind at once is refused, because
// clients look for each kind by itself.
func delta(raw []byte) (Delta, error) {
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
		d := &TextDelta{Text: r.TextOr("text", "")}
		r.May("extras", into(&d.Extras, extras))
		return d, r.Err()
	case t == "thinking_delta":
		return &ThinkingDelta{Thinking: r.TextOr("thinking", "")}, r.Err()
	case asks:
		d := &ApprovalDelta{TimeoutSeconds: seconds(r, "timeout_seconds")}
		r.May("action_requests", into(&d.Actions, actions))
		r.May("review_configs", into(&d.ReviewConfigs, reviewConfigs))
		return d, r.Err()
	case decides:
		return decisionsDelta(r)
	case file:
		return &FileDelta{Status: r.Text("status"), Message: r.TextOr("message", "")}, r.Err()
	default:
		return &UnknownDelta{Raw: clone(raw)}, nil
	}
}

func decisionsDelta(r *object.Reader) (Delta, error) {
	d := &DecisionsDelta{Decisions: []Decision{}}
	r.Items("decisions", func(raw []byte) error {
		item, err := decision(raw, true)
		d.Decisions = append(d.Decisions, item)
		return err
	})
	return d, r.Err()
}

func count(kinds ...bool) (n int) {
	for _, k := range kinds {
		if k {
			n++
		}
	}
	return n
}

func extras(raw []byte) (*Extras, error) {
	r := object.Read(raw)
	return &Extras{
		Subtype: Subtype(r.TextOr("block_subtype", "")), Code: r.TextOr("code", ""), CanRetry: r.BoolOr("can_retry", false),
		ErrorType: r.TextOr("error_type", ""), Details: r.Raw("details", "object"),
	}, r.Err()
}
