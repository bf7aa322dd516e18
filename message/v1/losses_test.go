package v1_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	v1 "github.com/askance-dev/askance/message/v1"
)

// told collects the rows that OnLoss reports.
func told(rows *[]int, c v1.Codec) v1.Codec {
	c.OnLoss = func(l v1.Loss) { *rows = append(*rows, l.Row) }
	return c
}

// write encodes one dict in a dialect.
func write(t *testing.T, c v1.Codec, in string) string {
	t.Helper()
	raw, err := c.AppendMsg(nil, decode(t, in))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func first(t *testing.T, c v1.Codec, in ...string) *message.Msg {
	t.Helper()
	return to20(t, c, in...)[0]
}

func want(t *testing.T, ok bool, got any) {
	t.Helper()
	if !ok {
		t.Errorf("got %+v", got)
	}
}

func blockOf(m *message.Msg) message.Block { return m.Content[0] }

func withBlock(t *testing.T, b message.Block) []*message.Msg {
	t.Helper()
	m := reply(t)
	m.Content = []message.Block{b}
	return []*message.Msg{m}
}

// losses has a check for every row of the table in the package documentation.
var losses = map[int]func(t *testing.T, c v1.Codec){
	1: func(t *testing.T, c v1.Codec) {
		c.Dialect = v1.V01
		got := write(t, c, o("k", "n", "assistant", `[{"type":"thinking","thinking":"x"},{"type":"tool_use","id":"c","name":"f","input":{},"raw_input":"{}"},{"type":"text","text":"y","more":1},{"type":"hologram"}]`))
		want(t, strings.Contains(got, `"content":[{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"text","text":"y"}]`), got)
	},
	2: func(t *testing.T, c v1.Codec) {
		got := write(t, c, z("user", `[{"type":"file","url":"https://e.x/a.zip"}]`))
		want(t, strings.Contains(got, `[{"type":"text","text":"https://e.x/a.zip"}]`), got)
		got = back(t, c, withBlock(t, &message.DataBlock{Source: &message.Base64Source{Data: "QUJD", MediaType: "application/pdf"}}))
		want(t, strings.Contains(got, `[file of type application/pdf]`), got)
		older := write(t, v1.Codec{Dialect: v1.V01}, o("k", "n", "user", `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]`))
		want(t, strings.Contains(older, `"url":"data:image/png;base64,QUJD"`), older)
		src, ok := blockOf(first(t, v1.Codec{}, older)).(*message.DataBlock).Source.(*message.Base64Source)
		want(t, ok && src.Data == "QUJD" && src.MediaType == "image/png", src)
	},
	3: func(t *testing.T, c v1.Codec) {
		in := z("system", `[{"type":"tool_result","id":"c","output":{"a": 1}}]`)
		r := first(t, c, in).ToolResult("c")
		want(t, r.Output.String() == `{"a": 1}`, r)
		want(t, strings.Contains(write(t, c, in), `"output":"{\"a\": 1}"`), in)
	},
	4: func(t *testing.T, c v1.Codec) {
		m := first(t, c, o("k", "n", "user", `[{"type":"image","source":{"type":"base64","media_type":"audio/wav","data":""}}]`))
		want(t, strings.Contains(back(t, v1.Codec{}, []*message.Msg{m}), `"type":"audio"`), m)
	},
	5: func(t *testing.T, c v1.Codec) {
		m := first(t, c, o("k", "n", "user", `[{"type":"image","source":{"type":"url","url":"cat.png"}}]`))
		want(t, blockOf(m).(*message.TextBlock).Text == "cat.png", m)
		m = first(t, c, o("k", "n", "user", `[{"type":"image","source":{"type":"url","url":"HTTPS://E.x"}}]`))
		want(t, blockOf(m).(*message.DataBlock).Source.(*message.URLSource).URL == "https://e.x/", m)
	},
	6: func(t *testing.T, c v1.Codec) {
		m := first(t, c, o("k", "n", "assistant", `[{"type":"thinking","thinking":"x","signature":"s","id":"lost"},{"type":"text","text":"x","more":1}]`))
		want(t, len(blockOf(m).(*message.ThinkingBlock).Extra) == 1, m)
	},
	7: func(t *testing.T, c v1.Codec) {
		m := first(t, c, o("k", "n", "assistant", `[{"type":"hologram","x":1},{"x":1}]`))
		want(t, len(m.Content) == 1 && m.Content[0].Type() == "hologram", m.Content)
		m = first(t, c, o("k", "n", "user", `[{"type":"hologram","x":1}]`))
		want(t, len(m.Content) == 0, m.Content)
		got := back(t, c, withBlock(t, &message.UnknownBlock{Kind: "image", Raw: message.RawJSON(`{"type":"image"}`)}))
		want(t, !strings.Contains(got, "image"), got)
	},
	8: func(t *testing.T, c v1.Codec) {
		m := first(t, c, o("k", "n", "assistant", `[{"type":"tool_use","id":"c","name":"f","input":{"a":1},"raw_input":"{\"a\": 2}"}]`))
		want(t, m.ToolCall("c").Input == `{"a": 2}`, m)
	},
	9: func(t *testing.T, c v1.Codec) {
		use := o("a", "F", "assistant", `[{"type":"tool_use","id":"c","name":"f","input":{}}]`)
		late := o("r", "system", "system", `[{"type":"tool_result","id":"c","name":"f","output":"x"}]`)
		m := first(t, c, use, o("u", "ann", "user", `"x"`), late)
		want(t, m.ToolResult("c") != nil, m)
		m = first(t, c, late)
		want(t, m.Role == message.RoleAssistant && m.ToolResult("c") != nil, m)
	},
	10: func(t *testing.T, c v1.Codec) {
		msgs := to20(t, c, o("s", "system", "system", `[{"type":"text","text":"look"},{"type":"image","source":{"type":"url","url":"https://e.x/a.png"}}]`))
		want(t, len(msgs) == 2 && msgs[0].Role == message.RoleSystem && msgs[1].Role == message.RoleUser && msgs[0].ID != msgs[1].ID, msgs)
	},
	11: func(t *testing.T, c v1.Codec) {
		m := first(t, c, strings.Replace(o("k", "n", "user", `"x"`), `"metadata":{}`, `"metadata":{"askance_v1":{"parts":1},"k":1}`, 1))
		_, ok := m.Metadata["askance_v1"].(map[string]any)["parts"].([]any)
		want(t, ok && m.Metadata["k"] == int64(1), m.Metadata)
		m = reply(t)
		m.Metadata = map[string]any{"askance": "mine"}
		got := back(t, c, []*message.Msg{m})
		want(t, !strings.Contains(got, "mine"), got)
	},
	12: func(t *testing.T, _ v1.Codec) {
		for kind, types := range map[string]map[string]string{
			"image": {"a.JPG": "image/jpeg", "a.png?x=.gif": "image/png", "a": "image/*", "a.mp3": "image/*"},
			"audio": {"a.mp3": "audio/mpeg", "a": "audio/*"}, "video": {"a.mp4": "video/mp4", "a.weird": "video/*"},
			"file": {"a.pdf": "application/pdf", "a.bin": "application/octet-stream", "a.png": "application/octet-stream"},
		} {
			for name, mediaType := range types {
				m := first(t, v1.Codec{}, z("user", `[{"type":"`+kind+`","url":"https://e.x/`+name+`"}]`))
				d := blockOf(m).(*message.DataBlock)
				want(t, d.Source.(*message.URLSource).MediaType == mediaType && (d.Name != nil) == (kind == "file"), d)
			}
		}
	},
	13: func(t *testing.T, _ v1.Codec) {
		use := o("a", "F", "assistant", `[{"type":"tool_use","id":"c","name":"f","input":{},"state":"allowed"}]`)
		m := first(t, v1.Codec{}, use)
		want(t, m.ToolCall("c").State == message.ToolCallPending, m)
		for output, state := range map[string]message.ToolResultState{
			`"x"`: message.ToolResultSuccess, `"The tool call has been interrupted by the user."`: message.ToolResultInterrupted,
			`[{"type":"text","text":"half"},{"type":"text","text":"<system-info>The tool call has been interrupted by the user.</system-info>"}]`: message.ToolResultInterrupted,
			`"He said: The tool call has been interrupted by the user."`:                                                                          message.ToolResultSuccess, `[]`: message.ToolResultSuccess,
		} {
			m := first(t, v1.Codec{}, use, o("r", "system", "system", `[{"type":"tool_result","id":"c","name":"f","output":`+output+`}]`))
			want(t, m.ToolResult("c").State == state && m.ToolCall("c").State == message.ToolCallFinished, output)
		}
	},
	14: func(t *testing.T, _ v1.Codec) {
		m := first(t, v1.Codec{}, o("a", "F", "assistant", `[{"type":"tool_use","id":"c","name":"f","input":{"b": 1.0, "a": 2}},{"type":"tool_use","id":"d","name":"f","input":{"n": 12345678901234567890123}}]`))
		want(t, m.ToolCall("c").Input == `{"a":2,"b":1}` && m.ToolCall("d").Input == `{"n": 12345678901234567890123}`, m)
	},
	15: func(t *testing.T, _ v1.Codec) {
		m := first(t, v1.Codec{}, seed)
		want(t, m.CreatedAt == "2025-04-09T03:39:15", m.CreatedAt)
		c := v1.Codec{Location: time.FixedZone("x", 8*3600)}
		m = first(t, c, seed)
		want(t, m.CreatedAt == "2025-04-09T03:39:15+08:00", m.CreatedAt)
		m.Metadata = nil // forget the dicts
		got := back(t, c, []*message.Msg{m})
		want(t, strings.Contains(got, `"timestamp":"2025-04-09 03:39:15.000"`), got)
		m.CreatedAt = "2025-04-08T19:39:15Z"
		got = back(t, c, []*message.Msg{m})
		want(t, strings.Contains(got, `"timestamp":"2025-04-09 03:39:15.000"`), got)
		m.CreatedAt = "yesterday"
		got = back(t, c, []*message.Msg{m})
		want(t, strings.Contains(got, `"timestamp":"yesterday"`), got)
	},
	16: func(t *testing.T, _ v1.Codec) {
		for _, md := range []string{`null`, `[1,2]`, `"x"`, `{"value":1}`, `{}`, `{"big":123456789012345678901234567890}`} {
			in := strings.Replace(seed, `"metadata":null`, `"metadata":`+md, 1)
			m := first(t, v1.Codec{}, in)
			got := back(t, v1.Codec{Dialect: v1.V01}, []*message.Msg{m})
			want(t, got == "["+in+"]", got)
		}
	},
	17: func(t *testing.T, _ v1.Codec) {
		in := strings.Replace(o("k", "n", "user", `"x"`), `"metadata"`, `"invocation_id":"i","metadata"`, 1)
		m := first(t, v1.Codec{}, in)
		want(t, m.Metadata["invocation_id"] == "i", m.Metadata)
		got := back(t, v1.Codec{}, []*message.Msg{m})
		want(t, got == "["+o("k", "n", "user", `"x"`)+"]", got)
	},
	18: func(t *testing.T, _ v1.Codec) {
		_, err := v1.Codec{}.ToMsgs(dicts(t, o("u", "ann", "user", `[{"type":"thinking","thinking":"x"}]`)))
		want(t, errors.Is(err, message.ErrInvalid), err)
	},
	19: func(t *testing.T, _ v1.Codec) {
		m := first(t, v1.Codec{}, z("assistant", `[{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"tool_result","id":"c","output":"x"},{"type":"tool_result","id":"d","output":"x"}]`))
		want(t, m.ToolResult("c").Name == "f" && m.ToolResult("d").Name == "", m)
	},
	20: func(t *testing.T, c v1.Codec) {
		m := reply(t)
		m.Usage = &message.Usage{InputTokens: 77777}
		got := back(t, c, []*message.Msg{m})
		want(t, !strings.Contains(got, "77777"), got)
	},
	21: func(t *testing.T, _ v1.Codec) {
		got := back(t, v1.Codec{}, []*message.Msg{reply(t)})
		want(t, !strings.Contains(got, `"b9"`) && !strings.Contains(got, "001234"), got)
	},
	22: func(t *testing.T, c v1.Codec) {
		got := back(t, c, []*message.Msg{asking()})
		want(t, strings.Contains(got, `"state":"asking"`), got)
		m := first(t, v1.Codec{}, strings.Trim(got, "[]"))
		want(t, m.ToolCall("c1").State == message.ToolCallPending, m)
	},
	23: func(t *testing.T, c v1.Codec) {
		m := reply(t)
		r := m.ToolResult("c2")
		r.State, r.Metadata = message.ToolResultDenied, map[string]any{"lost": true}
		got := back(t, c, []*message.Msg{m})
		want(t, strings.Contains(got, "ended with the state denied.") && !strings.Contains(got, "lost"), got)
		r.State, r.Output = message.ToolResultInterrupted, message.Content{}
		msgs, err := v1.Codec{}.ToMsgs(dicts(t, strings.Trim(back(t, c, []*message.Msg{m}), "[]")))
		want(t, err == nil && msgs[0].ToolResult("c2").State == message.ToolResultInterrupted, msgs)
		var rows []int
		r.State, r.Output, r.Metadata = message.ToolResultSuccess, message.Content{Text: "The tool call has been interrupted by the user."}, nil
		back(t, told(&rows, c), []*message.Msg{m})
		want(t, slices.Contains(rows, 23), rows)
	},
	24: func(t *testing.T, c v1.Codec) {
		m := asking()
		m.Content = append(m.Content, &message.ToolResultBlock{ID: "c2", Name: "g", Output: message.Content{Text: "half"}, State: message.ToolResultRunning})
		got := back(t, c, []*message.Msg{m})
		want(t, !strings.Contains(got, "half") && !strings.Contains(got, "tool_result"), got)
	},
	25: func(t *testing.T, c v1.Codec) {
		team := "team"
		m := reply(t)
		m.Content = slices.Insert(m.Content, 1, message.Block(&message.HintBlock{Hint: message.Content{Text: "hurry"}, Source: &team}))
		list := dicts(t, strings.Trim(back(t, c, []*message.Msg{m}), "[]"))
		want(t, len(list) == 5 && list[1].Role == message.RoleUser && list[1].Name == "team", list)
	},
	26: func(t *testing.T, c v1.Codec) {
		name := "cat"
		got := back(t, c, withBlock(t, &message.DataBlock{Name: &name, Source: &message.URLSource{URL: "https://e.x/a", MediaType: "image/png"}}))
		want(t, !strings.Contains(got, "image/png") && !strings.Contains(got, "cat"), got)
	},
	27: func(t *testing.T, _ v1.Codec) {
		for _, input := range []string{"", "no", "[]", `{"a":1,"a":2}`, `{"a":`} {
			msgs := withBlock(t, &message.ToolCallBlock{ID: "c", Name: "f", Input: input, State: message.ToolCallFinished})
			got := back(t, v1.Codec{}, msgs)
			want(t, strings.Contains(got, `"input":{},"raw_input":`), got)
			want(t, first(t, v1.Codec{}, strings.Trim(got, "[]")).ToolCall("c").Input == input, got)
		}
	},
	28: func(t *testing.T, _ v1.Codec) { refused(t, z("user", `1`)) },
	29: func(t *testing.T, _ v1.Codec) {
		refused(t, strings.Replace(seed, `"Msg"`, `"Other"`, 1))
		decode(t, strings.Replace(seed, `agentscope.message.msg`, `agentscope.message`, 1))
	},
	30: func(t *testing.T, _ v1.Codec) { refused(t, o("k", "n", "user", `[{"type":"text","text":1}]`)) },
	31: func(t *testing.T, _ v1.Codec) {
		got := write(t, v1.Codec{}, strings.Replace(o("k", "n", "user", `"x"`), `"metadata":{}`, `"metadata":[1]`, 1))
		want(t, strings.Contains(got, `"metadata":{"value":[1]}`), got)
	},
	32: func(t *testing.T, _ v1.Codec) {
		want(t, decode(t, strings.Replace(seed, `"metadata":null,`, ``, 1)).Metadata == nil, "V01")
		want(t, string(decode(t, strings.Replace(o("k", "n", "user", `"x"`), `"metadata":{},`, ``, 1)).Metadata) == "{}", "V1")
	},
}

func refused(t *testing.T, in string) {
	t.Helper()
	_, err := v1.DecodeMsg([]byte(in))
	want(t, errors.Is(err, message.ErrInvalid), err)
}

var tableRow = regexp.MustCompile(`(?m)^//\t ?([0-9]+)([* ]) `)

// Every row has a test. Exactly the rows with a star are reported to OnLoss.
func TestEveryLossIsTested(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := tableRow.FindAllStringSubmatch(string(doc), -1)
	if len(rows) != len(losses) {
		t.Errorf("%d rows, %d tests", len(rows), len(losses))
	}
	for i, r := range rows {
		n, _ := strconv.Atoi(r[1])
		if n != i+1 || losses[n] == nil {
			t.Errorf("row %d is numbered %d, test %v", i+1, n, losses[n] != nil)
			continue
		}
		t.Run("row "+r[1], func(t *testing.T) {
			var seen []int
			losses[n](t, told(&seen, v1.Codec{}))
			if got, star := slices.Contains(seen, n), r[2] == "*"; got != star {
				t.Errorf("reported: %v, documented: %v; rows %v", got, star, seen)
			}
		})
	}
}
