// Package msgv1 lets HTTP routes accept and return the message dicts of AgentScope 1.x where they
// accept and return messages of AgentScope 2.0.
//
// The media type selects the form. A request whose Content-Type is [Type] has dicts in its body;
// a request that prefers [Type] in Accept gets dicts. The JSON around the messages stays the
// same. [Type01] does the same for 0.1.x; both dialects are read under either type.
//
//	if msgv1.IsSent(r) {
//		dicts, err := msgv1.Decode("chat", body.Input)
//		msgs, err := msgv1.Convert("chat", dicts)
//	}
//	if kind := msgv1.WantedBy(r); kind != "" {
//		dicts, lost, err := msgv1.Encode(kind, msgs, digest)
//	}
//
// # Guarantees
//
//   - [Convert] refuses a dict if AgentScope 2.0 would lose a part of it; the error
//     names the part and the message.
//   - [Encode] reports everything that a dict cannot represent.
//   - A text is never a decision: only metadata.askance.decisions is, and each
//     decision names the digest of the approval request that its author saw. See package
//     message/v1.
//
// It does no I/O, and its functions are safe for concurrent use.
package msgv1

import (
	"errors"
	"fmt"
	"math"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
)

// Loss is a part of a message that a dict has no place for.
type Loss struct {
	// Message is the id of the message.
	Message string `json:"message_id"`
	// What was left out.
	What string `json:"what"`
}

// Decode reads dicts.
func Decode(op string, raw []message.RawJSON) ([]*v1.Msg, error) {
	list := []byte{'['}
	for i, m := range raw {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, m...)
	}
	dicts, err := v1.Codec{MaxBytes: math.MaxInt}.DecodeMsgs(append(list, ']')) // the body is bounded
	if err != nil {
		code := message.CodeInvalid
		if errors.Is(err, message.ErrTooLarge) {
			code = message.CodeTooLarge
		}
		return nil, &message.Error{
			Code: code, Op: op, What: "these are not AgentScope 1.x messages: " + err.Error(),
			Hint: "send what Msg.to_dict() gives, or AgentScope 2.0 messages with Content-Type: application/json",
		}
	}
	return dicts, nil
}

// DecisionsOf reads the decisions of a single dict, or returns nil if there are none. It refuses
// a list in which a dict decides.
func DecisionsOf(dicts []*v1.Msg) (*v1.Decisions, error) {
	for _, m := range dicts {
		d, err := v1.DecisionsOf(m)
		if d == nil && err == nil {
			continue
		}
		if err == nil && len(dicts) > 1 {
			err = &message.Error{Code: message.CodeInvalid, Op: "decide", What: "a message with decisions stands among others", Hint: "send it alone"}
		}
		return d, err
	}
	return nil, nil
}

// Convert converts dicts to messages of AgentScope 2.0. It refuses what they cannot represent.
func Convert(op string, dicts []*v1.Msg) ([]*message.Msg, error) {
	lost := []v1.Loss{}
	msgs, err := v1.Codec{OnLoss: func(l v1.Loss) { lost = append(lost, l) }}.ToMsgs(dicts)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op, What: "AgentScope 2.0 has no such message: " + err.Error(), Hint: "correct the message"}
	}
	if len(lost) > 0 {
		return nil, &message.Error{
			Code: message.CodeInvalid, Op: op,
			What: fmt.Sprintf("message %.100q would lose %.200s: AgentScope 2.0 has no place for it", lost[0].ID, lost[0].What),
			Hint: "leave that part out",
		}
	}
	return msgs, nil
}

// Encode converts messages to dicts of a media type. digest returns the digest of a call's open
// approval request, or "" if there is none.
func Encode(kind string, msgs []*message.Msg, digest func(message.ReplyID, message.CallID) string) ([]message.RawJSON, []Loss, error) {
	var lost []Loss
	c := v1.Codec{Dialect: dialects[kind], Digest: digest, OnLoss: func(l v1.Loss) {
		if l.Row != v1.RowCallState { // metadata.askance has it
			lost = append(lost, Loss{l.ID, l.What})
		}
	}}
	dicts, err := c.FromMsgs(msgs)
	if err != nil {
		return nil, nil, err
	}
	out := make([]message.RawJSON, len(dicts))
	for i, d := range dicts {
		if out[i], err = c.AppendMsg(nil, d); err != nil {
			return nil, nil, err
		}
	}
	return out, lost, nil
}
