package blockstream

import (
	"math"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/object"
)

// AppendFrame appends a frame as it travels. It fails on values that the format has no place for: text that is not
// UTF-8, arguments that are no object, a result longer than [MaxContent].
func AppendFrame(dst []byte, f Frame) ([]byte, error) {
	if f == nil {
		return dst, message.Errorf(message.CodeInvalid, "encode frame", "there is no frame")
	}
	return withError(dst, "encode frame", func() ([]byte, error) {
		w := object.Write(dst)
		w.Text("type", string(f.Type()))
		frameMembers(w, f)
		w.TextIf("message_id", string(f.Head().MessageID))
		w.TextIf("event_id", f.Head().EventID)
		return w.End()
	})
}

// withError gives an error the type that leaves this package, and dst back as it
// was.
func withError(dst []byte, op string, write func() ([]byte, error)) ([]byte, error) {
	out, err := write()
	if err != nil {
		return dst, message.Errorf(message.CodeInvalid, op, "%w", err)
	}
	return out, nil
}

func frameMembers(w *object.Writer, f Frame) {
	switch f := f.(type) {
	case *MessageStart:
		w.Text("session_id", string(f.Session))
		w.Put("timestamp", func(dst []byte) ([]byte, error) { return appendFloat(dst, f.Timestamp) })
		w.Put("display_mode", word(string(f.DisplayMode), f.DisplayMode.Valid()))
		w.Bool("is_new_session_from_share", f.NewFromShareLink)
	case *MessageDelta:
		w.Object("delta", func(w *object.Writer) { w.TextIf("stop_reason", f.StopReason) })
	case *MessageStop:
		w.Int("duration_ms", f.DurationMS)
	case *BlockStart:
		w.Int("index", int64(f.Index))
		w.Put("content_block", func(dst []byte) ([]byte, error) { return appendBlock(dst, f.Block) })
	case *BlockDelta:
		w.Int("index", int64(f.Index))
		w.Put("delta", func(dst []byte) ([]byte, error) { return appendDelta(dst, f.Delta) })
	case *BlockStop:
		w.Int("index", int64(f.Index))
		if f.Final {
			w.Bool("is_final", true)
		}
	case *Subscribed:
		w.TextIf("session_id", string(f.Session))
		w.Put("status", word(string(f.Status), f.Status == StatusRunning || f.Status == StatusCompleted))
	case *Error:
		w.Text("code", string(f.Code))
		w.Text("message", f.Message)
		w.TextIf("approval_key", f.ApprovalKey)
	case *Connected, *AuthOK, *Pong: // nothing besides the header
	}
}

// appendFloat always writes a fraction: one of the clients' languages does not
// take an integer for a float.
func appendFloat(dst []byte, f float64) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, strictjson.Wrong(strictjson.ErrType, "%v is no JSON number", f)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return append(dst, s...), nil
}

// word appends a string with a closed list of values.
func word(s string, valid bool) func([]byte) ([]byte, error) {
	return func(dst []byte) ([]byte, error) {
		if !valid {
			return dst, strictjson.Wrong(strictjson.ErrType, "%.60q is no such word", s)
		}
		return strictjson.AppendString(dst, s)
	}
}

func appendBlock(dst []byte, b ContentBlock) ([]byte, error) {
	if b == nil {
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "there is no block")
	}
	w := object.Write(dst)
	w.Text("type", string(b.Type()))
	switch b := b.(type) {
	case *Thinking:
		w.Text("thinking", b.Thinking)
		b.write(w)
	case *Text:
		w.Text("text", b.Text)
		b.write(w)
		w.Bool("is_part", b.IsPart)
	case *ToolUse:
		w.Text("id", string(b.ID))
		w.Text("name", b.Name)
		w.Text("tool_use_id", string(b.ID))
		w.Text("tool_content_message", b.Label)
		w.Put("input", objectOr(b.Input))
		b.write(w)
	case *ToolResult:
		writeResult(w, b)
	case *FileProcessing:
		w.Text("status", b.Status)
		w.Array("files", len(b.Files), func(dst []byte, i int) ([]byte, error) {
			w := object.Write(dst)
			w.Text("url", b.Files[i].URL)
			return w.End()
		})
	case *ApprovalRequest:
		w.Text("approval_key", b.ApprovalKey)
		if b.Actions != nil {
			writeActions(w, "actions", b.Actions)
		}
		if b.ReviewConfigs != nil {
			writeConfigs(w, b.ReviewConfigs)
		}
	case *ApprovalResult:
		w.TextIf("approval_key", b.ApprovalKey)
	}
	return w.End()
}

func (p Parent) write(w *object.Writer) {
	w.TextPtr("subagent", p.Subagent)
	w.TextPtr("parent_tool_use_id", p.ParentToolUseID)
}

func writeResult(w *object.Writer, b *ToolResult) {
	w.Text("tool_use_id", string(b.ToolUseID))
	w.Text("name", b.Name)
	w.Put("status", word(string(b.Status), b.Status == ResultSuccess || b.Status == ResultError))
	w.Put("content", func(dst []byte) ([]byte, error) {
		if n := characters(b.Content); n > MaxContent {
			return dst, strictjson.Wrong(strictjson.ErrTooLarge, "%d characters, the limit is %d", n, MaxContent)
		}
		return strictjson.AppendString(dst, b.Content)
	})
	w.Raw("artifact", b.Artifact)
	b.write(w)
}

func writeActions(w *object.Writer, name string, list []Action) {
	w.Array(name, len(list), func(dst []byte, i int) ([]byte, error) {
		a := list[i]
		w := object.Write(dst)
		w.Text("name", a.Name)
		w.Put("args", objectOr(a.Args))
		w.TextIf("tool_use_id", string(a.ToolUseID))
		w.TextIf("description", a.Description)
		if len(a.SuggestedRules) > 0 {
			w.Put("suggested_rules", func(dst []byte) ([]byte, error) {
				rules, err := strictjson.Marshal(a.SuggestedRules)
				return append(dst, rules...), err
			})
		}
		return w.End()
	})
}

func writeConfigs(w *object.Writer, list []ReviewConfig) {
	w.Array("review_configs", len(list), func(dst []byte, i int) ([]byte, error) {
		w := object.Write(dst)
		w.Bool("require_approval", list[i].RequireApproval)
		if list[i].Timeout > 0 {
			w.Int("timeout", list[i].Timeout)
		}
		return w.End()
	})
}

func appendDelta(dst []byte, d Delta) ([]byte, error) {
	if d == nil {
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "there is no delta")
	}
	w := object.Write(dst)
	switch d := d.(type) {
	case *TextDelta:
		w.Text("type", "text_delta")
		w.Text("text", d.Text)
		if d.Extras != nil {
			w.Object("extras", d.Extras.write)
		}
	case *ThinkingDelta:
		w.Text("type", "thinking_delta")
		w.Text("thinking", d.Thinking)
	case *FileDelta:
		w.Text("status", d.Status)
		w.Text("message", d.Message)
	case *ApprovalDelta:
		writeActions(w, "action_requests", d.Actions)
		writeConfigs(w, d.ReviewConfigs)
		if d.TimeoutSeconds > 0 {
			w.Int("timeout_seconds", d.TimeoutSeconds)
		}
	case *DecisionsDelta:
		w.Array("decisions", len(d.Decisions), func(dst []byte, i int) ([]byte, error) { return appendDecision(dst, d.Decisions[i]) })
	}
	return w.End()
}

func (e *Extras) write(w *object.Writer) {
	w.Text("block_subtype", string(e.Subtype))
	if e.Subtype == SubtypeUserStopped {
		return
	}
	w.Text("code", e.Code)
	w.Bool("can_retry", e.CanRetry)
	w.Text("error_type", e.ErrorType)
	w.Put("details", objectOr(e.Details))
}

// AppendCommand appends a command as it travels. What it writes, DecodeCommand
// reads back.
func AppendCommand(dst []byte, c Command) ([]byte, error) {
	if c == nil {
		return dst, message.Errorf(message.CodeInvalid, "encode command", "there is no command")
	}
	return withError(dst, "encode command", func() ([]byte, error) {
		w := object.Write(dst)
		w.Text("type", string(c.Type()))
		commandMembers(w, c)
		return w.End()
	})
}

func commandMembers(w *object.Writer, c Command) {
	switch c := c.(type) {
	case *Auth:
		w.Text("token", c.Token)
	case *Subscribe:
		w.Text("session_id", string(c.Session))
		w.TextIf("last_event_id", c.LastEventID)
	case *Chat:
		w.TextIf("session_id", string(c.Session))
		w.Text("message", c.Text)
		if len(c.ContentURLs) > 0 {
			w.Array("content_urls", len(c.ContentURLs), func(dst []byte, i int) ([]byte, error) {
				return strictjson.AppendString(dst, c.ContentURLs[i])
			})
		}
	case *Stop:
		w.TextIf("session_id", string(c.Session))
		w.TextIf("message_id", string(c.MessageID))
	case *Approval:
		w.TextIf("approval_key", c.Key)
		w.TextIf("session_id", string(c.Session))
		w.TextIf("message_id", string(c.MessageID))
		w.Array("decisions", len(c.Decisions), func(dst []byte, i int) ([]byte, error) { return appendDecision(dst, c.Decisions[i]) })
	case *PingCommand, *PongCommand: // nothing besides the type
	}
}
