package bus

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Every request is {"v":1,"op":"…","body":{…}}, every reply {"v":1,"body":{…}} or
// {"v":1,"error":{…}}. Bodies are types of packages message and toolcall.
type requestEnvelope struct {
	V    int                `json:"v"`
	Op   string             `json:"op"`
	Body strictjson.Encoded `json:"body,omitzero"` // only its decoder checks it
}

type replyEnvelope struct {
	V     int                `json:"v"`
	Body  strictjson.Encoded `json:"body,omitzero"` // only its decoder checks it
	Error *message.Error     `json:"error,omitzero"`
}

// opReply is the Op of an error whose request was executed and whose reply is too
// large.
const opReply = "reply"

var (
	version     = strconv.Itoa(ProtocolVersion)
	replyPrefix = `{"v":` + version + `,"body":`
)

func encodeRequest(op string, body any) ([]byte, error) {
	b, err := strictjson.MarshalBetween(`{"v":`+version+`,"op":"`+op+`","body":`, body, "}")
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op, What: "the request has no JSON form", Err: err}
	}
	if len(b) > toolcall.MaxRequestBytes {
		return nil, tooLargeRequest(op, len(b))
	}
	return b, nil
}

func tooLargeRequest(op string, n int) error {
	return &message.Error{Code: message.CodeTooLarge, Op: op, What: fmt.Sprintf("the request has %d bytes, the limit is %d", n, toolcall.MaxRequestBytes), Hint: "send less at once, or keep large data elsewhere and pass a reference"}
}

// decodeRequest decodes the envelope. Its errors can be sent to the client.
func decodeRequest(data []byte) (requestEnvelope, error) {
	var r requestEnvelope
	if len(data) > toolcall.MaxRequestBytes {
		return r, tooLargeRequest("request", len(data))
	}
	if err := strictjson.Unmarshal(data, &r); err != nil {
		return r, &message.Error{Code: message.CodeInvalid, Op: "request", What: err.Error(), Hint: `send {"v":1,"op":"…","body":{…}}`}
	}
	if r.V != ProtocolVersion {
		return r, &message.Error{Code: message.CodeInvalid, Op: "request", What: fmt.Sprintf("request version %d is unknown", r.V), Hint: "this engine speaks version 1"}
	}
	return r, nil
}

// decodeBody decodes the body of a request; an absent one is empty.
func decodeBody(op *api.Operation, body []byte) (any, error) {
	if len(body) == 0 {
		body = []byte("{}")
	}
	r, err := op.Decode(toolcall.MaxRequestBytes, body)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op.Name, What: err.Error(), Hint: "see bus/PROTOCOL.md for the body of " + op.Name}
	}
	return r, nil
}

// encodeReply encodes a reply and fails if it has more than most bytes.
func encodeReply(op string, body any, most int) ([]byte, error) {
	b, err := strictjson.MarshalBetween(replyPrefix, body, "}")
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: op, What: "the reply has no JSON form", Err: err}
	}
	return b, checkReplySize(b, most)
}

// checkReplySize fails if a reply has more than most bytes.
func checkReplySize(b []byte, most int) error {
	if len(b) > most {
		return &message.Error{Code: message.CodeTooLarge, Op: opReply, What: fmt.Sprintf("the request was executed, but its reply of %d bytes does not fit a message of %d", len(b), most), Hint: "read the calls one by one with list, or raise the server's max_payload"}
	}
	return nil
}

// encodeError encodes an error, without its call if that does not fit.
func encodeError(op string, err error, most int) []byte {
	e := *message.AsError(op, err)
	for {
		b, err := strictjson.Marshal(replyEnvelope{V: ProtocolVersion, Error: &e})
		if err == nil && len(b) <= most {
			return b
		}
		if e.Call == nil {
			return []byte(`{"v":1,"error":{"code":"internal","what":"the error has no JSON form"}}`)
		}
		e.Call = nil
	}
}

// decodeReply decodes an engine's reply and ignores unknown members, which newer
// engines may send.
func decodeReply(op *api.Operation, data []byte) (reply any, err error) {
	var r replyEnvelope
	err = strictjson.UnmarshalOpen(data, &r, strictjson.MaxBytes(jsapi.MaxMessageBytes))
	switch {
	case err == nil && r.Error != nil:
		return nil, r.Error
	case err == nil && r.V != ProtocolVersion:
		err = fmt.Errorf("reply version %d is unknown", r.V)
	case err == nil:
		if _, typ := op.Types(); typ == reflect.TypeFor[struct{}]() {
			reply = struct{}{}
			if len(r.Body) > 0 { // it has no members
				err = strictjson.Check(r.Body, strictjson.MaxBytes(jsapi.MaxMessageBytes))
			}
			break
		}
		reply, err = op.DecodeReply(jsapi.MaxMessageBytes, r.Body)
	}
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: op.Name, What: "the engine's reply is unreadable", Hint: "use one version of engine and client", Err: err}
	}
	return reply, nil
}
