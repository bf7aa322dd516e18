package blockstream

import (
	"errors"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/object"
)

// Limits of what is decoded.
const (
	// MaxCommandBytes bounds a command: room for one edited input.
	MaxCommandBytes = 512 << 10
	// MaxDecisions, MaxContentURLs bound the lists of a command.
	MaxDecisions   = 256
	MaxContentURLs = 64
)

// ErrUnknownCommand is wrapped by the error for a command of unknown type. A
// command is never guessed.
var ErrUnknownCommand = errors.New("unknown command")

// DecodeCommand decodes what a client sent. In an approval every member must
// be known, elsewhere unknown ones are dropped; unknown types are refused with
// [ErrUnknownCommand].
func DecodeCommand(data []byte) (Command, error) {
	if err := strictjson.Check(data, strictjson.MaxBytes(MaxCommandBytes)); err != nil {
		return nil, message.DecodeError("decode command", err)
	}
	c, err := command(data)
	if err != nil {
		return nil, message.DecodeError("decode command", err)
	}
	return c, nil
}

func command(raw []byte) (Command, error) {
	r := object.Read(raw)
	switch t := CommandType(r.Text("type")); {
	case r.Err() != nil:
		return nil, r.Err()
	case t == CommandAuth:
		return &Auth{Token: r.Text("token")}, r.Err()
	case t == CommandSubscribe:
		return &Subscribe{Session: message.SessionID(r.Text("session_id")), LastEventID: r.TextOr("last_event_id", "")}, r.Err()
	case t == CommandChat:
		return chat(r)
	case t == CommandStop:
		return &Stop{Session: message.SessionID(r.TextOr("session_id", "")), MessageID: message.ReplyID(r.TextOr("message_id", ""))}, r.Err()
	case t == CommandApproval:
		return approval(r)
	case t == CommandPing:
		return &PingCommand{}, nil
	case t == CommandPong:
		return &PongCommand{}, nil
	default:
		return nil, &strictjson.Error{Op: "decode", Path: "/type", Offset: -1, Err: unknownError{string(t)}}
	}
}

// unknownError is both a wrong type and an unknown command.
type unknownError struct{ name string }

func (e unknownError) Error() string {
	return ErrUnknownCommand.Error() + " " + strconv.Quote(e.name[:min(len(e.name), 60)])
}
func (unknownError) Unwrap() []error { return []error{ErrUnknownCommand, strictjson.ErrType} }

func chat(r *object.Reader) (*Chat, error) {
	c := &Chat{Session: message.SessionID(r.TextOr("session_id", ""))}
	said := 0
	for _, name := range []string{"message", "content", "text"} {
		if r.Has(name) {
			c.Text = r.Text(name)
			said++
		}
	}
	r.Items("content_urls", func(raw []byte) error {
		u, err := strictjson.Text(raw)
		if len(c.ContentURLs) == MaxContentURLs {
			return strictjson.Wrong(strictjson.ErrTooLarge, "over %d urls", MaxContentURLs)
		}
		c.ContentURLs = append(c.ContentURLs, u)
		return err
	})
	switch {
	case said > 1:
		r.Fail(strictjson.ErrDuplicateName, "more than one of message, content and text")
	case said == 0 && len(c.ContentURLs) == 0:
		r.Fail(strictjson.ErrMissingMember, "%q", "message")
	}
	return c, r.Err()
}

func approval(r *object.Reader) (*Approval, error) {
	r.Only("type", "approval_key", "session_id", "message_id", "decisions")
	a := &Approval{
		Key:       r.TextOr("approval_key", ""),
		Session:   message.SessionID(r.TextOr("session_id", "")),
		MessageID: message.ReplyID(r.TextOr("message_id", "")),
	}
	r.Items("decisions", func(raw []byte) error {
		if len(a.Decisions) == MaxDecisions {
			return strictjson.Wrong(strictjson.ErrTooLarge, "over %d decisions", MaxDecisions)
		}
		d, err := decision(raw)
		a.Decisions = append(a.Decisions, d)
		return err
	})
	if len(a.Decisions) == 0 {
		r.Fail(strictjson.ErrMissingMember, "%q, with one item for each action", "decisions")
	}
	return a, r.Err()
}
