package v1_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
	"pgregory.net/rapid"
)

var inputs = []string{`{}`, `{"a":1}`, `{"b": [1, {"c":"é"}], "a":1.50}`, `{"n":12345678901234567890123}`}

// drawDicts draws a conversation as 1.x agents may write it, including unusual ones.
func drawDicts(t *rapid.T, d v1.Dialect) []*v1.Msg {
	n, calls := 0, []message.CallID{}
	id := func() string { n++; return "id" + strconv.Itoa(n) }
	text := rapid.SampledFrom([]string{"", "x", "The tool call has been interrupted by the user.", "é😀"})
	content := func(t *rapid.T, role message.MsgRole) v1.Block {
		kinds := []string{"text"}
		if role != message.RoleSystem {
			kinds = append(kinds, "url", "base64")
		}
		if role == message.RoleAssistant {
			kinds = append(kinds, "use", "use", "own result")
			if d == v1.V1 {
				kinds = append(kinds, "thinking")
			}
		}
		kind := rapid.SampledFrom([]v1.BlockType{v1.BlockImage, v1.BlockAudio, v1.BlockVideo}).Draw(t, "media")
		switch rapid.SampledFrom(kinds).Draw(t, "block") {
		case "url":
			return &v1.MediaBlock{Kind: kind, URL: rapid.SampledFrom([]string{"https://example.com/a.png", "https://example.com/b", "https://example.com/c.mp3"}).Draw(t, "url")}
		case "base64":
			return &v1.MediaBlock{Kind: kind, Data: "QUJD", MediaType: string(kind) + "/x"}
		case "thinking":
			return &v1.ThinkingBlock{Thinking: text.Draw(t, "thinking")}
		case "use":
			calls = append(calls, message.CallID("c"+strconv.Itoa(rapid.IntRange(1, 4).Draw(t, "call"))))
			u := &v1.ToolUseBlock{ID: calls[len(calls)-1], Name: "f", Input: message.RawJSON(rapid.SampledFrom(inputs).Draw(t, "input"))}
			if raw := rapid.SampledFrom([]string{"", "not json", `{"a":1}`}).Draw(t, "raw"); raw != "" && d == v1.V1 {
				u.RawInput = &raw
			}
			return u
		case "own result":
			return &v1.ToolResultBlock{ID: "own", Name: "g", Output: v1.Output{Text: text.Draw(t, "output")}}
		}
		return &v1.TextBlock{Text: text.Draw(t, "text")}
	}
	one := func(t *rapid.T) *v1.Msg {
		m := &v1.Msg{Dialect: d, ID: id(), Role: rapid.SampledFrom([]message.MsgRole{"user", "assistant", "assistant", "system"}).Draw(t, "role"), Timestamp: "2026-01-02 03:04:05"}
		if d == v1.V1 {
			m.Timestamp += ".678"
		}
		m.Name = rapid.SampledFrom([]string{"F", "F", "G"}).Draw(t, "name")
		if md := rapid.SampledFrom([]string{"", `{}`, `{"k":[1,null,"x"]}`}).Draw(t, "metadata"); md != "" {
			m.Metadata = message.RawJSON(md)
		}
		if rapid.Bool().Draw(t, "string") {
			m.Content.Text = text.Draw(t, "content")
			return m
		}
		m.Content = v1.List()
		if m.Role == message.RoleSystem && rapid.Bool().Draw(t, "results") {
			for _, c := range calls {
				m.Content.Blocks = append(m.Content.Blocks, &v1.ToolResultBlock{ID: c, Name: "f", Output: v1.Output{Blocks: []v1.Block{&v1.TextBlock{Text: text.Draw(t, "output")}}}})
			}
			calls = nil
			return m
		}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			m.Content.Blocks = append(m.Content.Blocks, content(t, m.Role))
		}
		return m
	}
	out := make([]*v1.Msg, rapid.IntRange(0, 8).Draw(t, "length"))
	for i := range out {
		out[i] = one(t)
	}
	return out
}

// count counts the blocks of dicts, ignoring their order, because results may have moved to their
// calls.
func count(t *rapid.T, c v1.Codec, list []*v1.Msg) map[string]int {
	out := map[string]int{}
	for _, m := range list {
		for _, b := range m.Content.Blocks {
			raw, err := c.AppendMsg(nil, &v1.Msg{Role: "user", Content: v1.List(b)})
			if err != nil {
				t.Fatal(err)
			}
			if _, isCall := b.(*v1.ToolUseBlock); !isCall { // its input may be formatted differently
				out[string(raw)]++
			}
		}
	}
	return out
}

// Conversion there and back loses no block and keeps ids and roles. If no result had to move, the
// dicts are the same. Repeating it changes nothing.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]v1.Dialect{v1.V1, v1.V01}).Draw(t, "dialect")
		moved, respelt := false, false
		c := v1.Codec{Dialect: d, OnLoss: func(l v1.Loss) { moved = moved || l.Row == 9; respelt = respelt || l.Row == 4 }}
		in := drawDicts(t, d)
		msgs, err := c.ToMsgs(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			raw, err := m.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := message.DecodeMsg(raw); err != nil {
				t.Fatalf("%v: %s", err, raw)
			}
		}
		out, err := c.FromMsgs(msgs)
		if err != nil {
			t.Fatal(err)
		}
		a, b := encode(t, c, in), encode(t, c, out)
		if !moved && !respelt && !bytes.Equal(normal(t, c, in), normal(t, c, out)) {
			t.Fatalf("changed:\n%s\n%s", a, b)
		}
		if x, y := count(t, c, in), count(t, c, out); !respelt && len(x) != len(y) {
			t.Fatalf("lost:\n%s\n%s", a, b)
		}
		if moved {
			return
		}
		again, err := c.ToMsgs(out)
		if err != nil {
			t.Fatal(err)
		}
		for i := range msgs {
			x, _ := msgs[i].MarshalJSON()
			y, _ := again[i].MarshalJSON()
			if !bytes.Equal(x, y) {
				t.Fatalf("the messages differ:\n%s\n%s", x, y)
			}
		}
	})
}

func encode(t *rapid.T, c v1.Codec, list []*v1.Msg) []byte {
	raw, err := c.AppendMsgs(nil, list)
	if err != nil {
		t.Fatal(err)
	}
	back, err := c.DecodeMsgs(raw)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if twice, err := c.AppendMsgs(nil, back); err != nil || !bytes.Equal(raw, twice) {
		t.Fatalf("not stable: %v\n%s\n%s", err, raw, twice)
	}
	return raw
}

// normal encodes dicts with every input in the form of RFC 8785 and without raw_input.
func normal(t *rapid.T, c v1.Codec, list []*v1.Msg) []byte {
	out := make([]*v1.Msg, len(list))
	for i, m := range list {
		d := *m
		if m.Content.IsList() {
			d.Content = v1.List()
		}
		for _, b := range m.Content.Blocks {
			if u, ok := b.(*v1.ToolUseBlock); ok {
				b = &v1.ToolUseBlock{ID: u.ID, Name: u.Name, Input: message.RawJSON(`{}`)}
			}
			d.Content.Blocks = append(d.Content.Blocks, b)
		}
		out[i] = &d
	}
	return encode(t, c, out)
}

// Conversion from 2.0 and back returns the same messages, with the same bytes of inputs.
func TestFrom20AndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := "2026-03-01T09:00:00.001"
		var in []*message.Msg
		for i := range rapid.IntRange(1, 4).Draw(t, "messages") {
			m := &message.Msg{ID: "m" + strconv.Itoa(i), Name: "F", Role: message.RoleAssistant, CreatedAt: at, Content: []message.Block{}, Metadata: map[string]any{"i": int64(i)}}
			for k := range rapid.IntRange(0, 4).Draw(t, "rounds") {
				id := message.CallID("c" + strconv.Itoa(k))
				if rapid.Bool().Draw(t, "text") {
					m.Content = append(m.Content, &message.TextBlock{Text: "x", CreatedAt: at})
				}
				input := rapid.OneOf(rapid.SampledFrom(inputs), rapid.StringMatching(`[ -~]{0,12}`)).Draw(t, "input")
				m.Content = append(m.Content, &message.ToolCallBlock{ID: id, Name: "f", Input: input, State: message.ToolCallFinished, CreatedAt: at})
				if rapid.Bool().Draw(t, "result") {
					m.Content = append(m.Content, &message.ToolResultBlock{ID: id, Name: "f", Output: message.Content{Text: "out"}, State: message.ToolResultSuccess, CreatedAt: at})
				} else {
					m.ToolCall(id).State = message.ToolCallPending
				}
			}
			in = append(in, m)
		}
		c := v1.Codec{}
		dicts, err := c.FromMsgs(in)
		if err != nil {
			t.Fatal(err)
		}
		read, err := c.DecodeMsgs(encode(t, c, dicts))
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.ToMsgs(read)
		if err != nil || len(out) != len(in) {
			t.Fatalf("%d messages of %d, %v", len(out), len(in), err)
		}
		for i, m := range out {
			w := in[i]
			if m.ID != w.ID || m.CreatedAt != w.CreatedAt || len(m.Content) != len(w.Content) || len(m.Metadata) != 1 || m.Metadata["i"] != int64(i) {
				t.Fatalf("%s became %s: %v, want %v; %v", w.ID, m.ID, m.Content, w.Content, m.Metadata)
			}
			for j, b := range m.Content {
				call, ok := b.(*message.ToolCallBlock)
				if ok && (call.Input != w.Content[j].(*message.ToolCallBlock).Input || call.State != w.Content[j].(*message.ToolCallBlock).State) {
					t.Fatalf("%+v, want %+v", call, w.Content[j])
				}
			}
		}
	})
}
