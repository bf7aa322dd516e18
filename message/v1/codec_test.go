package v1_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
)

// seed is the dict that the 0.1.x tutorial prints.
const seed = `{"__module__":"agentscope.message.msg","__name__":"Msg","id":"1fb7a0bf80c44c3e885ae65987070379","name":"Jarvis","role":"assistant","content":"嗨！我能为您效劳吗？","metadata":null,"timestamp":"2025-04-09 03:39:15"}`

func z(role, content string) string {
	return `{"__module__":"agentscope.message.msg","__name__":"Msg","id":"z1","name":"n","role":"` + role + `","content":` + content + `,"metadata":null,"timestamp":"2025-04-09 03:39:15"}`
}

func o(id, name, role, content string) string {
	return `{"id":"` + id + `","name":"` + name + `","role":"` + role + `","content":` + content + `,"metadata":{},"timestamp":"2026-11-21 09:32:43.576"}`
}

func decode(t testing.TB, in string) *v1.Msg {
	t.Helper()
	m, err := v1.DecodeMsg([]byte(in))
	if err != nil {
		t.Fatalf("%s: %v", in, err)
	}
	return m
}

// What each dialect writes is decoded and encoded without changing a byte.
func TestByteEqual(t *testing.T) {
	for _, in := range []string{
		seed,
		z("user", `[{"type":"text","text":"帮我看看这张图片"},{"type":"image","url":"https://example.com/image.jpg"}]`),
		z("user", `[{"type":"text","text":"帮我播放这首歌"},{"type":"audio","url":"https://example.com/audio.mp3"}]`),
		z("user", `[{"type":"video","url":"https://example.com/video.mp4"},{"type":"file","url":"https://example.com/file.zip"}]`),
		z("assistant", `[{"type":"tool_use","id":"c1","name":"f","input":{"b": 1, "a": 2}},{"type":"tool_result","id":"c1","name":"f","output":[1,{"x":null}]}]`),
		z("system", `[]`),
		o("k", "Friday", "assistant", `"hi"`),
		o("k", "Friday", "assistant", `[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"tool_use","id":"c1","name":"f","input":{},"raw_input":"{}"}]`),
		o("k", "u", "user", `[{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},{"type":"audio","source":{"type":"base64","media_type":"audio/wav","data":"QUJD"}}]`),
		o("k", "system", "system", `[{"type":"tool_result","id":"c1","name":"f","output":[{"type":"text","text":"x"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]}]`),
		o("k", "n", "assistant", `[{"x":1},{"type":"hologram", "y":2}]`),
		strings.Replace(o("k", "n", "user", `""`), `"metadata":{}`, `"metadata":null`, 1),
	} {
		raw, err := decode(t, in).MarshalJSON()
		if err != nil || string(raw) != in {
			t.Errorf("%v\n in %s\nout %s", err, in, raw)
		}
	}
}

func TestDetect(t *testing.T) {
	for _, c := range []struct {
		in   string
		want v1.Dialect
		err  error
	}{
		{seed, v1.V01, nil},
		{o("k", "n", "user", `"x"`), v1.V1, nil},
		{`{}`, v1.V1, nil},
		{`{"__type":"Msg","id":"x"}`, 0, v1.ErrIs00},
		{`{"created_at":"x"}`, 0, v1.ErrIs20},
		{`{"finished_at":null}`, 0, v1.ErrIs20},
		{`{"content":[{"type":"text"},{"type":"tool_call"}]}`, 0, v1.ErrIs20},
		{`{"content":[{"type":"data"}]}`, 0, v1.ErrIs20},
		{`{"content":[{"type":"hint"}]}`, 0, v1.ErrIs20},
		{`[]`, 0, message.ErrInvalid},
	} {
		got, err := v1.Detect([]byte(c.in))
		if got != c.want || !errors.Is(err, c.err) || (err != nil) != (c.err != nil) {
			t.Errorf("%.80s: %v %v", c.in, got, err)
		}
	}
	if _, err := v1.DecodeMsg([]byte(`{"created_at":"x"}`)); !errors.Is(err, v1.ErrIs20) || !errors.Is(err, message.ErrInvalid) {
		t.Error(err)
	}
}

func TestReads(t *testing.T) {
	fixed := v1.Codec{Now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC) }, NewID: func() string { return "new" }}
	m, err := fixed.DecodeMsg([]byte(`{"name":"n","role":"user","content":"x","invocation_id":"i","unknown":1}`))
	if err != nil || m.ID != "new" || m.Timestamp != "2026-01-02 03:04:05.678" || string(m.Metadata) != "{}" || m.InvocationID != "i" {
		t.Errorf("%+v %v", m, err)
	}
	if m := decode(t, `{"name":"n","role":"user","content":"x"}`); len(m.ID) != 22 || m.Timestamp == "" {
		t.Errorf("%+v", m)
	}
	if m := decode(t, z("user", `null`)); !m.Content.IsList() || len(m.Content.Blocks) != 0 || m.Metadata != nil {
		t.Errorf("%+v", m)
	}
	if m := decode(t, z("user", `[{"type":"text","text":"x","more":1}]`)); len(m.Content.Blocks[0].(*v1.TextBlock).Extra) != 0 {
		t.Errorf("%+v", m)
	}
	if m := decode(t, o("k", "n", "user", `[{"type":"image","url":"https://e.x/a.png"}]`)); m.Content.Blocks[0].(*v1.MediaBlock).URL != "https://e.x/a.png" {
		t.Errorf("flat url in a 1.x dict: %+v", m)
	}
	for in, want := range map[string]string{
		`"x"`:     `[{"type":"text","text":"x"},{"type":"image","url":"https://e.x/a.png"},{"type":"file","url":"https://e.x/b"}]`,
		`{"a":1}`: `[{"type":"text","text":"{\"a\":1}"},{"type":"image","url":"https://e.x/a.png"},{"type":"file","url":"https://e.x/b"}]`,
		`[1]`:     `[{"type":"text","text":"[1]"},{"type":"image","url":"https://e.x/a.png"},{"type":"file","url":"https://e.x/b"}]`,
	} {
		old := strings.Replace(z("user", in), `"timestamp"`, `"url":["https://e.x/a.png","https://e.x/b"],"timestamp"`, 1)
		raw, err := decode(t, old).MarshalJSON()
		if err != nil || string(raw) != z("user", want) {
			t.Errorf("0.1.0: %s %v", raw, err)
		}
	}
	for url, n := range map[string]int{`null`: -1, `"https://e.x/a.mp3"`: 2} {
		m := decode(t, strings.Replace(z("user", `"x"`), `"timestamp"`, `"url":`+url+`,"timestamp"`, 1))
		if n < 0 && m.Content.Text != "x" || n > 0 && len(m.Content.Blocks) != n {
			t.Errorf("url %s: %+v", url, m)
		}
	}
}

// The work for each call does not grow with the number of calls in a reply.
func TestManyCalls(t *testing.T) {
	var uses, results []string
	for i := range 4000 {
		id := strconv.Itoa(i)
		uses = append(uses, `{"type":"tool_use","id":"`+id+`","name":"f","input":{}}`)
		results = append(results, `{"type":"tool_result","id":"`+id+`","name":"f","output":""}`)
	}
	msgs := to20(t, v1.Codec{}, o("a", "F", "assistant", "["+strings.Join(uses, ",")+"]"), o("r", "system", "system", "["+strings.Join(results, ",")+"]"))
	if len(msgs) != 1 || len(msgs[0].Content) != 8000 || msgs[0].ToolCall("3999").State != message.ToolCallFinished {
		t.Errorf("%d messages", len(msgs))
	}
	if got := back(t, v1.Codec{}, msgs); strings.Count(got, "tool_use") != 4000 {
		t.Error("some calls are lost")
	}
}

func TestRefuses(t *testing.T) {
	without := func(in, member string) string {
		var m map[string]any
		if err := json.Unmarshal([]byte(in), &m); err != nil {
			t.Fatal(err)
		}
		delete(m, member)
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	bad := map[string]string{
		"V01 extra member":     strings.Replace(seed, `"metadata"`, `"invocation_id":"x","metadata"`, 1),
		"V01 other class":      strings.Replace(seed, `"__name__":"Msg"`, `"__name__":"File"`, 1),
		"V01 other module":     strings.Replace(seed, `agentscope.message`, `os.path`, 1),
		"V01 bad role":         z("tool", `"x"`),
		"V01 number":           z("user", `1`),
		"V01 object":           z("user", `{}`),
		"V01 thinking":         z("assistant", `[{"type":"thinking","thinking":"x"}]`),
		"V01 unknown block":    z("assistant", `[{"type":"hologram"}]`),
		"V01 untyped block":    z("assistant", `[{"text":"x"}]`),
		"V01 source":           z("user", `[{"type":"image","source":{"type":"url","url":"x"}}]`),
		"V01 no input":         z("assistant", `[{"type":"tool_use","id":"c","name":"f"}]`),
		"V01 url, no metadata": without(strings.Replace(seed, `"metadata"`, `"url":null,"metadata"`, 1), "metadata"),
		"V01 url of numbers":   strings.Replace(seed, `"metadata"`, `"url":[1],"metadata"`, 1),
		"V1 bad role":          o("k", "n", "tool", `"x"`),
		"V1 null content":      o("k", "n", "user", `null`),
		"V1 number":            o("k", "n", "user", `1`),
		"V1 object":            o("k", "n", "user", `{}`),
		"V1 block no object":   o("k", "n", "user", `["x"]`),
		"V1 text missing":      o("k", "n", "user", `[{"type":"text"}]`),
		"V1 input as text":     o("k", "n", "assistant", `[{"type":"tool_use","id":"c","name":"f","input":"{}"}]`),
		"V1 output number":     o("k", "n", "system", `[{"type":"tool_result","id":"c","name":"f","output":1}]`),
		"V1 call in result":    o("k", "n", "system", `[{"type":"tool_result","id":"c","name":"f","output":[{"type":"tool_use","id":"c","name":"f","input":{}}]}]`),
		"V1 two sources":       o("k", "n", "user", `[{"type":"image","url":"x","source":{"type":"url","url":"x"}}]`),
		"V1 source type":       o("k", "n", "user", `[{"type":"image","source":{"type":"s3","url":"x"}}]`),
		"V1 no media_type":     o("k", "n", "user", `[{"type":"image","source":{"type":"base64","data":"x"}}]`),
		"duplicate":            `{"name":"n","name":"m","role":"user","content":"x"}`,
		"wrong case":           `{"Name":"n","role":"user","content":"x"}`,
		"deep":                 o("k", "n", "user", strings.Repeat("[", 60)+strings.Repeat("]", 60)),
	}
	for _, member := range []string{"__name__", "id", "name", "role", "content", "timestamp"} {
		bad["V01 without "+member] = without(seed, member)
	}
	for _, member := range []string{"name", "role", "content"} {
		bad["V1 without "+member] = without(o("k", "n", "user", `"x"`), member)
	}
	for name, in := range bad {
		if m, err := v1.DecodeMsg([]byte(in)); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: read as %+v, %v", name, m, err)
		}
	}
	if _, err := (v1.Codec{MaxBytes: 10}).DecodeMsg([]byte(seed)); !errors.Is(err, message.ErrTooLarge) {
		t.Error(err)
	}
	for _, m := range []*v1.Msg{nil, {Role: "tool"}, {Role: "user", Name: "\xff"}, {Role: "user", Content: v1.List(&v1.MediaBlock{Kind: "smell"})}, {Role: "user", Content: v1.List(&v1.ToolUseBlock{})}} {
		if out, err := (v1.Codec{}).AppendMsg([]byte("x"), m); !errors.Is(err, message.ErrInvalid) || string(out) != "x" {
			t.Errorf("%+v: %s %v", m, out, err)
		}
	}
}

// Values of the maximum depth that can be decoded can be encoded in both dialects and converted.
func TestDepth(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for in, ok := range map[string]bool{
		strings.Replace(seed, "null", nest(54), 1):                                 true,
		strings.Replace(seed, "null", nest(55), 1):                                 false,
		strings.Replace(seed, "null", `{"a":`+nest(54)+`}`, 1):                     true,
		strings.Replace(seed, "null", `{"a":`+nest(55)+`}`, 1):                     false,
		strings.Replace(o("k", "n", "user", `"x"`), "{}", `{"a":`+nest(54)+`}`, 1): true,
	} {
		m, err := v1.DecodeMsg([]byte(in))
		if (err == nil) != ok {
			t.Errorf("%s: %v", in, err)
		}
		if err != nil {
			continue
		}
		msgs, err := v1.Codec{}.ToMsgs([]*v1.Msg{m, m})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			if _, err := message.DecodeMsg(mustJSON(t, m)); err != nil {
				t.Error(err)
			}
		}
		for _, d := range []v1.Dialect{v1.V1, v1.V01} {
			if _, err := (v1.Codec{}).DecodeMsgs([]byte(back(t, v1.Codec{Dialect: d}, msgs))); err != nil {
				t.Error(err)
			}
		}
	}
	deep := reply(t)
	deep.Metadata = map[string]any{}
	for at, i := deep.Metadata, 0; i < 60; i++ {
		next := map[string]any{}
		at["a"], at = next, next
	}
	list, err := v1.Codec{}.FromMsgs([]*message.Msg{deep})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (v1.Codec{}).AppendMsgs(nil, list); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("encoded although it cannot be decoded: %v", err)
	}
}
