package v1_test

import (
	"bytes"
	"testing"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
)

// roomy decodes values that encoding made larger.
var roomy = v1.Codec{MaxBytes: 16 << 20}

func FuzzDecodeMsg(f *testing.F) {
	for _, s := range append([]string{seed, ``, `{}`, `[]`, `{"__module__":1}`, `{"__type":"Msg"}`,
		z("user", `[{"type":"file","url":"data:a/b;base64,QUJD"}]`), z("system", `[{"type":"tool_result","id":"c","output":{"a":[1.0]}}]`),
		o("k", "n", "user", `[{"type":"image","url":"x"},{"type":"file","source":{"type":"base64","media_type":"a/b","data":""}},{"type":1}]`)}, reacting...) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := v1.DecodeMsg(data)
		if err != nil {
			return
		}
		for _, d := range []v1.Dialect{m.Dialect, v1.V1, v1.V01} {
			c := v1.Codec{Dialect: d}
			once, err := c.AppendMsg(nil, m)
			if err != nil {
				t.Fatalf("%v: the decoded dict cannot be encoded: %v", d, err)
			}
			again, err := roomy.DecodeMsg(once)
			if err != nil {
				t.Fatalf("%v: the encoded dict cannot be decoded: %v\n%s", d, err, once)
			}
			if twice, err := c.AppendMsg(nil, again); err != nil || !bytes.Equal(once, twice) || again.Dialect != d {
				t.Fatalf("%v is not stable: %v\n%s\n%s", d, err, once, twice)
			}
		}
	})
}

// FuzzConvert converts every input that can be decoded, there and back. No call becomes allowed,
// and every step can be encoded and decoded.
func FuzzConvert(f *testing.F) {
	f.Add([]byte("[" + seed + "]"))
	f.Add([]byte("[" + reacting[2] + "," + reacting[3] + "," + reacting[4] + "]"))
	f.Add([]byte(`[{"id":"a","name":"F","role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{},"raw_input":"x"}],"metadata":{"askance":{"reply_id":"r","part":0,"calls":[{"tool_use_id":"c","state":"allowed"}]},"askance_v1":{"parts":[]}},"timestamp":""}]`))
	f.Add([]byte("[" + o("s", "s", "system", `[{"type":"image","url":"https://e.x/\u0000"},{"type":"tool_result","id":"c","name":"f","output":[{"type":"hologram"}]}]`) + "]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := v1.Codec{}.DecodeMsgs(data)
		if err != nil {
			return
		}
		msgs, err := v1.Codec{}.ToMsgs(list)
		if err != nil {
			return
		}
		for _, m := range msgs {
			raw, err := m.MarshalJSON()
			if err != nil {
				t.Fatalf("%v\n%s", err, data)
			}
			if _, err := (message.Codec{MaxBytes: 16 << 20}).DecodeMsg(raw); err != nil {
				t.Fatalf("%v\n%s", err, raw)
			}
			for _, call := range message.BlocksOf[*message.ToolCallBlock](m) {
				if call.State != message.ToolCallPending && call.State != message.ToolCallFinished {
					t.Fatalf("%+v", call)
				}
			}
		}
		for _, d := range []v1.Dialect{v1.V1, v1.V01} {
			c := v1.Codec{Dialect: d, MaxBytes: 16 << 20}
			out, err := c.FromMsgs(msgs)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := c.AppendMsgs(nil, out)
			if err != nil {
				t.Fatal(err)
			}
			back, err := c.DecodeMsgs(raw)
			if err != nil {
				t.Fatalf("%v\n%s", err, raw)
			}
			if _, err := c.ToMsgs(back); err != nil {
				t.Fatalf("%v\n%s", err, raw)
			}
			for _, m := range back {
				if d, err := v1.DecisionsOf(m); d != nil && err == nil {
					_, _ = d.Responses("s", "x")
				}
			}
		}
	})
}
