package bus

import (
	"fmt"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Every request is {"v":1,"op":"…","body":{…}}, every reply {"v":1,"body":{…}}
// or {"v":1,"error":{…}}. The bodies are the types of package message.
type requestEnvelope struct {
	V    int             `json:"v"`
	Op   Op              `json:"op"`
	Body message.RawJSON `json:"body,omitzero"`
}

type replyEnvelope struct {
	V     int             `json:"v"`
	Body  message.RawJSON `json:"body,omitzero"`
	Error *message.Error  `json:"error,omitzero"`
}

// Op is what a request asks for.
type Op string

// The operations. Which subject takes which is in [Operations].
const (
	OpPropose Op = "propose"
	OpEmit    Op = "emit"
	OpReport  Op = "report"
	OpWait    Op = "wait"
	OpEvents  Op = "events"
	OpList    Op = "list"
	OpShow    Op = "show"
	OpInfo    Op = "info"
	OpLoad    Op = "load"

	OpLeases      Op = "leases"
	OpShowLease   Op = "show_lease"
	OpRevokeLease Op = "revoke_lease"
	OpExplain     Op = "explain"

	OpAnswer    Op = "answer"
	OpInterrupt Op = "interrupt"
	OpSettle    Op = "settle"
	OpRevoke    Op = "revoke"
	OpNext      Op = "next"
	OpKeys      Op = "keys"
	OpAck       Op = "ack"
	OpStart     Op = "start"
	OpHeartbeat Op = "heartbeat"
	OpProgress  Op = "progress"
	OpResult    Op = "result"

	OpRecords    Op = "records"
	OpCheckpoint Op = "checkpoint"
)

// opReply is the Op of the error that says: carried out, but the reply does
// not fit a message.
const opReply = "reply"

// version is ProtocolVersion as JSON.
var version = strconv.Itoa(ProtocolVersion)

// envelope puts a body that is JSON already behind the members before it: to
// encode it as part of an object would read and copy it once more.
func envelope(before string, body []byte) []byte {
	out := make([]byte, 0, len(before)+len(body)+1)
	out = append(out, before...)
	out = append(out, body...)
	return append(out, '}')
}

func encodeRequest(op Op, body any) ([]byte, error) {
	b, err := strictjson.Marshal(body)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: string(op), What: "the request has no JSON form", Err: err}
	}
	b = envelope(`{"v":`+version+`,"op":"`+string(op)+`","body":`, b)
	if len(b) > message.MaxRequestBytes {
		return nil, tooLargeRequest(op, len(b))
	}
	return b, nil
}

func tooLargeRequest(op Op, n int) error {
	return &message.Error{Code: message.CodeTooLarge, Op: string(op), What: fmt.Sprintf("the request has %d bytes, the limit is %d", n, message.MaxRequestBytes), Hint: "send less at once; keep large data elsewhere and pass a reference"}
}

// decodeRequest reads the envelope. What it refuses, it refuses with an error
// that can be sent back.
func decodeRequest(data []byte) (requestEnvelope, error) {
	var r requestEnvelope
	if len(data) > message.MaxRequestBytes {
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

// decodeBody reads the body of a request; none is an empty one.
func decodeBody(op Op, body []byte, v any) error {
	if len(body) == 0 {
		body = []byte("{}")
	}
	if err := strictjson.Unmarshal(body, v, strictjson.MaxBytes(message.MaxRequestBytes)); err != nil {
		return &message.Error{Code: message.CodeInvalid, Op: string(op), What: err.Error(), Hint: "see bus/PROTOCOL.md for the body of " + string(op)}
	}
	return nil
}

// encodeReply makes the reply of at most most bytes.
func encodeReply(op Op, body any, most int) ([]byte, error) {
	b, err := strictjson.Marshal(body)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: string(op), What: "the reply has no JSON form", Err: err}
	}
	b = envelope(`{"v":`+version+`,"body":`, b)
	if len(b) > most {
		return nil, &message.Error{Code: message.CodeTooLarge, Op: opReply, What: fmt.Sprintf("the request was carried out, but the reply of %d bytes does not fit a message of %d", len(b), most), Hint: "read the calls one by one with list, or raise the server's max_payload"}
	}
	return b, nil
}

// encodeError makes the reply that refuses. The present call is left out of it
// if it does not fit.
func encodeError(op Op, err error, most int) []byte {
	e := *message.AsError(string(op), err)
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

// decodeReply reads what an engine answered into body. Members that it does
// not know are dropped: a newer engine may say more.
func decodeReply(op Op, data []byte, body any) error {
	var r replyEnvelope
	err := strictjson.UnmarshalOpen(data, &r, strictjson.MaxBytes(maxStoredBytes))
	switch {
	case err == nil && r.Error != nil:
		return r.Error
	case err == nil && r.V != ProtocolVersion:
		err = fmt.Errorf("reply version %d is unknown", r.V)
	case err == nil && body != nil:
		err = strictjson.UnmarshalOpen(r.Body, body, strictjson.MaxBytes(maxStoredBytes))
	}
	if err != nil {
		return &message.Error{Code: message.CodeInternal, Op: string(op), What: "the engine's reply cannot be read", Hint: "engine and client must be of one version", Err: err}
	}
	return nil
}
