package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
)

// maxFrame bounds one message in each direction.
const maxFrame = 4 << 20

// frame is one JSON-RPC message. Its parts are the bytes that arrived.
type frame struct {
	id     json.RawMessage // nil: a notification
	method string          // "": a response
	params json.RawMessage
	result json.RawMessage
	fault  json.RawMessage // the error object
	err    error           // of a response that answers nothing: why
}

func (f *frame) isRequest() bool  { return f.method != "" && f.id != nil }
func (f *frame) isResponse() bool { return f.method == "" }

func parseFrame(data []byte) (*frame, error) {
	if strictjson.KindOf(data) == "array" {
		return nil, errors.New("it is a batch: send each message by itself")
	}
	if err := strictjson.Check(data, strictjson.MaxBytes(maxFrame)); err != nil {
		return nil, err
	}
	members, err := strictjson.Members(data)
	if err != nil {
		return nil, err
	}
	f := &frame{}
	for _, m := range members {
		value := bytes.Clone(m.Value)
		switch m.Name {
		case "jsonrpc":
			if string(value) != `"2.0"` {
				return nil, errors.New("jsonrpc is not 2.0")
			}
		case "id":
			if kind := strictjson.KindOf(value); kind == "string" || kind == "number" {
				f.id = value
			}
		case "method":
			if f.method, err = strictjson.Text(value); err != nil {
				return nil, err
			}
		case "params":
			f.params = value
		case "result":
			f.result = value
		case "error":
			if f.fault = value; string(value) == "null" { // older revisions of JSON-RPC write it next to a result
				f.fault = nil
			}
		}
	}
	switch {
	case f.fault != nil && strictjson.KindOf(f.fault) != "object":
		return nil, errors.New("error is not an object")
	case f.method == "" && f.result == nil && f.fault == nil:
		return nil, errors.New("neither a request nor a response")
	case f.method != "" && f.params != nil && strictjson.KindOf(f.params) != "object":
		return nil, errors.New("params is not an object")
	}
	return f, nil
}

// readMessage reads a message of a server, with U+FFFD for text that is cut within a character. What
// cannot be read and may be a response becomes one with an error, so that its request ends.
func readMessage(data []byte) (*frame, error) {
	f, err := parseFrame(data)
	if err != nil {
		f, err = parseFrame(strictjson.RepairText(data))
	}
	if err != nil {
		id, method, _ := addressOf(data)
		if method == "" && (id != nil || mayRespond(data)) {
			return &frame{id: id, err: fmt.Errorf("its message cannot be read: %w", err)}, err
		}
	}
	return f, err
}

// mayRespond reports whether what cannot be read looks like a response, or like several. A line of a log
// with one in it does not.
func mayRespond(data []byte) bool {
	has := func(name string) bool { return bytes.Contains(data, []byte(`"`+name+`"`)) }
	return bytes.HasPrefix(bytes.TrimLeft(data, "[ \t"), []byte("{")) && has("jsonrpc") && (!has("method") || has("result") || has("error"))
}

// readClient reads a message of a client. A response that cannot be read is an error, so that its
// request ends.
func readClient(data []byte) (*frame, error) {
	f, err := parseFrame(data)
	if err != nil {
		if id, method, responds := addressOf(data); id != nil && method == "" && responds {
			return responseTo(id, nil, &rpcError{code: codeParse, text: "the response of the client cannot be read: " + err.Error()}), nil
		}
	}
	return f, err
}

// addressOf returns the id, if there is one, and the method of a message that parseFrame refuses.
// responds reports whether it has a result or an error.
func addressOf(data []byte) (id json.RawMessage, method string, responds bool) {
	var m struct {
		ID, Result, Error json.RawMessage
		Method            string
	}
	if err := json.Unmarshal(data, &m); err != nil { //nolint:forbidigo // nothing else of it is used
		return nil, "", false
	}
	if kind := strictjson.KindOf(m.ID); kind != "string" && kind != "number" {
		m.ID = nil
	}
	return m.ID, m.Method, m.Result != nil || m.Error != nil
}

// parseError answers a message of a client that parseFrame refuses.
func parseError(data []byte, err error) *frame {
	id, method, _ := addressOf(data)
	if method == "" || id == nil {
		id = json.RawMessage("null")
	}
	return responseTo(id, nil, &rpcError{code: codeParse, text: "Parse error: " + err.Error()})
}

// bytes encodes the message on one line.
func (f *frame) bytes() []byte {
	out := []byte(`{"jsonrpc":"2.0"`)
	add := func(name string, value []byte) {
		if value == nil {
			return
		}
		out = append(append(append(out, `,"`...), name...), `":`...)
		out = append(out, value...)
	}
	add("id", f.id)
	if f.method != "" {
		add("method", quote(f.method))
	}
	add("params", f.params)
	add("result", f.result)
	add("error", f.fault)
	out = append(out, '}')
	if bytes.ContainsAny(out, "\r\n") { // for some readers, and in streams, a carriage return also ends a line
		var line bytes.Buffer
		if json.Compact(&line, out) == nil {
			return line.Bytes()
		}
	}
	return out
}

func quote(s string) []byte {
	b, err := strictjson.AppendString(nil, s)
	if err != nil { // only our own texts and decoded ones come here
		b, _ = strictjson.AppendString(nil, fmt.Sprintf("%q", s))
	}
	return b
}

// encode encodes values of our own, which cannot fail.
func encode(v any) json.RawMessage {
	b, err := strictjson.Marshal(v)
	if err != nil {
		panic("mcp: " + err.Error())
	}
	return b
}

// object is a JSON object whose values are not decoded.
type object []strictjson.Member

// objectOf reads an object that was checked before; any other value is an empty one.
func objectOf(data []byte) object {
	if strictjson.KindOf(data) != "object" {
		return nil
	}
	o, _ := strictjson.Members(data) // syntax was checked with the frame
	return o
}

func (o object) get(name string) json.RawMessage { return strictjson.Find(o, name) }

func (o object) text(name string) string { return strictjson.TextMember(o, name) }

// at follows names down through nested objects.
func (o object) at(names ...string) json.RawMessage {
	var value json.RawMessage
	for _, name := range names {
		if value = o.get(name); value == nil {
			return nil
		}
		o = objectOf(value)
	}
	return value
}

// with returns the object with a member replaced or added at the end.
func (o object) with(name string, value json.RawMessage) object {
	out := slices.Clone(o)
	for i := range out {
		if out[i].Name == name {
			out[i].Value = value
			return out
		}
	}
	return append(out, strictjson.Member{Name: name, Value: value})
}

func (o object) without(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m strictjson.Member) bool { return slices.Contains(names, m.Name) })
}

// only returns the object with only these members.
func (o object) only(names ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m strictjson.Member) bool { return !slices.Contains(names, m.Name) })
}

func (o object) bytes() json.RawMessage {
	out := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, quote(m.Name)...), ':')
		out = append(out, m.Value...)
	}
	return append(out, '}')
}

// itemsOf returns the items of an array, or none for any other value.
func itemsOf(data []byte) []json.RawMessage {
	if strictjson.KindOf(data) != "array" {
		return nil
	}
	members, _ := strictjson.Items(data) // syntax was checked with the frame
	out := make([]json.RawMessage, len(members))
	for i, m := range members {
		out[i] = m.Value
	}
	return out
}

func arrayOf(items []json.RawMessage) json.RawMessage {
	out := []byte{'['}
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

func intID(n int64) json.RawMessage { return strconv.AppendInt(nil, n, 10) }

// The codes of JSON-RPC and of the protocol.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeParams         = -32602
	codeInternal       = -32603
	codeHeaders        = -32020
	codeCapability     = -32021
	codeVersion        = -32022
)

// rpcError is a JSON-RPC error; raw is the error object of an upstream, which passes
// unchanged.
type rpcError struct {
	code int
	text string
	data json.RawMessage
	raw  json.RawMessage
}

func (e *rpcError) Error() string { return fmt.Sprintf("%s (code %d)", e.text, e.code) }

func (e *rpcError) bytes() json.RawMessage {
	if e.raw != nil {
		return e.raw
	}
	o := object{{Name: "code", Value: intID(int64(e.code))}, {Name: "message", Value: quote(e.text)}}
	if e.data != nil {
		o = append(o, strictjson.Member{Name: "data", Value: e.data})
	}
	return o.bytes()
}

// readError reads an error object. A client would drop one that has no code or no message.
func readError(raw json.RawMessage) *rpcError {
	o := objectOf(raw)
	code, err := strconv.Atoi(string(o.get("code")))
	if text := o.get("message"); err != nil || strictjson.KindOf(text) != "string" {
		return &rpcError{code: codeInternal, text: cmp.Or(o.text("message"), "the error has no message"), data: o.get("data")}
	}
	return &rpcError{code: code, text: o.text("message"), data: o.get("data"), raw: raw}
}

func badParams(format string, args ...any) *rpcError {
	return &rpcError{code: codeParams, text: fmt.Sprintf(format, args...)}
}

func noMethod(method string) *rpcError {
	return &rpcError{code: codeNoMethod, text: "Method not found: " + method}
}

func responseTo(id, result json.RawMessage, err error) *frame {
	if err == nil {
		return &frame{id: id, result: result}
	}
	re, ok := errors.AsType[*rpcError](err)
	if !ok {
		re = &rpcError{code: codeInternal, text: err.Error()}
	}
	return &frame{id: id, fault: re.bytes()}
}
