package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Names of the CUSTOM events of a turn. Their value is a Record.
const (
	TurnEvent   = "askance.turn"        // the turn begins
	QueuedEvent = "askance.turn.queued" // the turn begins after the turns before it
)

// maxRecord bounds a turn's record, in bytes of JSON.
const maxRecord = toolcall.MaxRequestBytes - 16<<10

// Record is the value of these events: what a user sent, and what the turn needs to continue in
// another process.
type Record struct {
	V     int             `json:"v"` // 1
	Reply message.ReplyID `json:"reply_id"`
	Agent string          `json:"agent"`
	// Runner is the Config.ID of the runner that runs the turn.
	Runner string `json:"runner"`
	// By is the user's name, as authenticated.
	By       string                     `json:"by"`
	Messages []*message.Msg             `json:"messages"`
	Tools    []Tool                     `json:"tools,omitzero"`
	Input    map[string]message.RawJSON `json:"input,omitzero"`
}

// ParseRecord reads a turn's record from an event. It returns false for any other event, and for
// a record that this version cannot use.
func ParseRecord(e message.Event) (*Record, bool) { return parseRecord(e, TurnEvent) }

func parseRecord(e message.Event, name string) (*Record, bool) {
	c, ok := e.(*message.Custom)
	if !ok || c.Name != name {
		return nil, false
	}
	type bare Record
	var in struct {
		bare
		Messages []message.RawJSON `json:"messages"`
	}
	if err := fromValue(c.Value, &in); err != nil || in.V != 1 || in.Reply == "" || len(in.Messages) == 0 {
		return nil, false
	}
	r := Record(in.bare)
	r.Messages = make([]*message.Msg, len(in.Messages))
	for i, raw := range in.Messages {
		m, err := stableCodec(c.ID).DecodeMsg(raw)
		if err != nil || m.ID == "" {
			return nil, false
		}
		r.Messages[i] = m
	}
	return &r, true
}

// stableCodec fills in what another writer left out, with the same values for every reader.
func stableCodec(id string) message.Codec {
	n := 0
	return message.Codec{
		Now:   func() time.Time { return time.Unix(0, 0).UTC() },
		NewID: func() string { n++; return fmt.Sprintf("%s-%d", id, n) },
	}
}

// custom returns an event with that name and value.
func custom(name string, v any) (message.Event, error) {
	text, err := strictjson.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	if len(text) > maxRecord {
		return nil, &message.Error{Code: message.CodeTooLarge, Op: "start turn", What: fmt.Sprintf("the messages, tools and inputs of the turn have %d bytes, the limit is %d", len(text), maxRecord), Hint: "send large content as a URL"}
	}
	value, err := strictjson.Object(text, strictjson.KeepBigIntegers())
	if err != nil {
		return nil, message.Errorf(message.CodeInvalid, "start turn", "%s: %w", name, err)
	}
	return &message.Custom{EventHeader: message.NewHeader(""), Name: name, Value: value}, nil
}

// fromValue reads the value of a CUSTOM event into v.
func fromValue(value map[string]any, v any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return strictjson.Unmarshal(text, v)
}

// replyID returns the id of the reply to a message, always the same for the same message.
func replyID(session message.SessionID, last string) message.ReplyID {
	sum := sha256.Sum256(fmt.Appendf(nil, "askance-turn-v1\x00%d\x00%s%s", len(session), session, last))
	return message.ReplyID(hex.EncodeToString(sum[:16]))
}
