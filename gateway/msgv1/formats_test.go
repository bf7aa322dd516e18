package msgv1_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/message/blockstream"
	v1 "github.com/askance-dev/askance/message/v1"
	"github.com/askance-dev/askance/toolcall"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// piece is a block of an output, as every format can express it.
type piece struct {
	Kind string // text, base64, url or table, which no format knows
	Text string // the text, the data or the URL
	Type string // media type
}

// pieces are what a result can contain. The types of URLs are those that 1.x guesses.
var pieces = rapid.SliceOfN(rapid.SampledFrom([]piece{
	{"text", "10", ""}, {"text", "20\n", ""}, {"text", "", ""}, {"text", `{"a":"\u202e<b>"}`, ""}, {"text", "é\x00\x1b[2J", ""},
	{"base64", "iVBORw0KGgo=", "image/png"}, {"base64", "", "audio/ogg"}, {"base64", "AAAA", "application/pdf"}, {"base64", "AAAA", "video/mp4"},
	{"url", "https://a.example/v.mp4?x=1", "video/mp4"}, {"url", "https://a.example/a.png", "image/png"}, {"url", "https://a.example/f.zip", "application/zip"},
	{"table", `{"type":"table","rows":9007199254740993}`, ""},
}), 0, 6)

// writers make the output of a result, each in the way of a format.
var writers = map[string]func(t *rapid.T, all []piece) message.Content{
	"2.0": func(t *rapid.T, all []piece) message.Content {
		var list []string
		for _, p := range all {
			list = append(list, map[string]string{
				"text": fmt.Sprintf(`{"type":"text","text":%s}`, quoted(t, p.Text)), "table": p.Text,
				"base64": fmt.Sprintf(`{"type":"data","source":{"type":"base64","media_type":%q,"data":%q}}`, p.Type, p.Text),
				"url":    fmt.Sprintf(`{"type":"data","source":{"type":"url","media_type":%q,"url":%q}}`, p.Type, p.Text),
			}[p.Kind])
		}
		var c message.Content
		must(t, json.Unmarshal([]byte("["+strings.Join(list, ",")+"]"), &c))
		return c
	},
	"AG-UI": func(t *rapid.T, all []piece) message.Content {
		var list []string
		for _, p := range all {
			source := map[string]string{"base64": "data", "url": "url"}[p.Kind]
			kind, _, _ := strings.Cut(p.Type, "/")
			if kind == "application" {
				kind = "document"
			}
			part := fmt.Sprintf(`{"type":%q,"source":{"type":%q,"value":%q,"mimeType":%q}}`, kind, source, p.Text, p.Type)
			if source == "" {
				part = fmt.Sprintf(`{"type":"text","text":%s}`, quoted(t, p.Text))
			}
			list = append(list, part)
		}
		return readAGUI(t, "["+strings.Join(list, ",")+"]")
	},
	"1.x": func(t *rapid.T, all []piece) message.Content {
		var list []string
		for _, p := range all {
			kind, _, _ := strings.Cut(p.Type, "/")
			if kind == "application" {
				kind = "file"
			}
			list = append(list, map[string]string{
				"text": fmt.Sprintf(`{"type":"text","text":%s}`, quoted(t, p.Text)), "table": fmt.Sprintf(`{"type":"text","text":%s}`, quoted(t, p.Text)),
				"base64": fmt.Sprintf(`{"type":%q,"source":{"type":"base64","media_type":%q,"data":%q}}`, kind, p.Type, p.Text),
				"url":    fmt.Sprintf(`{"type":%q,"url":%q}`, kind, p.Text),
			}[p.Kind])
		}
		return readDicts(t, `[{"id":"m1","name":"bot","role":"assistant","timestamp":"2026-03-01 09:00:00.000","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},
			{"id":"m2","name":"system","role":"system","timestamp":"2026-03-01 09:00:01.000","content":[{"type":"tool_result","id":"c1","name":"f","output":[`+strings.Join(list, ",")+`]}]}]`)
	},
}

// readers return the output that a reader of a format has, in the order of its blocks.
var readers = map[string]func(t *rapid.T, events []message.Event) []string{
	"2.0": func(t *rapid.T, events []message.Event) []string {
		return contents(fold(t, events).ToolResult("c1").Output)
	},
	"AG-UI": func(t *rapid.T, events []message.Event) []string {
		m := agui.NewMapper(agui.Run{ThreadID: "s1", RunID: "run", Peer: agui.Peer10}, agui.Mapping{})
		var got message.Content
		for _, e := range events {
			for _, w := range m.Map(e) {
				if r, ok := w.(*agui.ToolCallResult); ok {
					raw, err := agui.AppendJSON(nil, r)
					must(t, err)
					var wire struct{ Content json.RawMessage }
					must(t, json.Unmarshal(raw, &wire))
					got = readAGUI(t, string(wire.Content))
				}
			}
		}
		return contents(got)
	},
	"1.x": func(t *rapid.T, events []message.Event) []string {
		return contents(throughDicts(t, fold(t, events)))
	},
}

// TestFormats writes a result in each format and reads it in each: no block is lost, changed or
// out of its place, and no text runs into another.
func TestFormats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := pieces.Draw(t, "output")
		want := expected(all)
		for from, write := range writers {
			call := &toolcall.Call{
				Key: toolcall.Key{Space: "s", Session: "s1", Reply: "r1", Call: "c1"}, Tool: "f", Input: "{}", State: message.ToolCallFinished,
				Result: &message.ToolResultBlock{ID: "c1", Name: "f", State: message.ToolResultSuccess, Output: write(t, all)},
			}
			h := message.EventHeader{ID: "e", Reply: "r1", CreatedAt: "2026-03-01T09:00:00"}
			events := []message.Event{
				&message.ReplyStart{EventHeader: h, Session: "s1", Name: "bot", Role: message.RoleAssistant},
				&message.ToolCallStart{EventHeader: h, ToolCallID: "c1", ToolCallName: "f"}, &message.ToolCallDelta{EventHeader: h, ToolCallID: "c1", Delta: "{}"}, &message.ToolCallEnd{EventHeader: h, ToolCallID: "c1"},
				&message.ToolResultStart{EventHeader: h, ToolCallID: "c1", ToolCallName: "f"},
			}
			events = append(events, toolcall.Events(&toolcall.EventRecord{ID: "f1", At: time.Unix(1, 0), Call: call, Path: []toolcall.Step{{From: "allowed", To: "finished", Cause: "result"}}})...)
			for to, read := range readers {
				want := want
				switch {
				case to == "1.x":
					want = withoutFiles(want)
				case to == "AG-UI" && len(want) == 0: // a result without media is a string there
					want = []string{"text "}
				}
				if diff := cmp.Diff(want, read(t, events)); diff != "" {
					t.Errorf("written by %s, read by %s (-want +got):\n%s", from, to, diff)
				}
			}
			text, data := readFrame(t, events)
			if wantText, wantData := splitData(want); text != wantText || !slices.Equal(data, wantData) {
				t.Errorf("written by %s, block streams have %q and %q, want %q and %q", from, text, data, wantText, wantData)
			}
		}
	})
}

// expected joins texts next to each other, because events have no place for where one ends.
func expected(all []piece) []string {
	out := []string{}
	var texts []string
	flush := func() {
		if texts != nil {
			out = append(out, "text "+message.JoinTexts(texts))
		}
		texts = nil
	}
	for _, p := range all {
		if p.Type == "" {
			texts = append(texts, p.Text)
			continue
		}
		flush()
		out = append(out, p.Type+" "+p.Text)
	}
	flush()
	return out
}

// withoutFiles puts a link or the type in the place of each file, which 1.x does not have.
func withoutFiles(all []string) []string {
	all = slices.Clone(all)
	for i, s := range all {
		switch kind, rest, _ := strings.Cut(s, " "); {
		case !strings.HasPrefix(kind, "application/"):
		case strings.Contains(rest, "://"):
			all[i] = "text " + rest
		default:
			all[i] = "text [file of type " + kind + "]"
		}
	}
	return all
}

// contents describes the blocks of an output.
func contents(c message.Content) []string {
	out := []string{}
	if !c.IsList() {
		return append(out, "text "+c.Text)
	}
	for _, b := range c.Blocks {
		switch b := b.(type) {
		case *message.TextBlock:
			out = append(out, "text "+b.Text)
		case *message.DataBlock:
			switch s := b.Source.(type) {
			case *message.Base64Source:
				out = append(out, s.MediaType+" "+s.Data)
			case *message.URLSource:
				out = append(out, s.MediaType+" "+s.URL)
			}
		default:
			out = append(out, "unread "+string(b.Type()))
		}
	}
	return out
}

// readFrame returns the text and the data that a block stream shows of the result.
func readFrame(t *rapid.T, events []message.Event) (text string, data []string) {
	m, err := blockstream.NewMapper(blockstream.Config{Space: "s", Session: "s1"})
	must(t, err)
	for _, e := range events {
		frames, err := m.Event(e)
		must(t, err)
		for _, f := range frames {
			start, _ := f.(*blockstream.BlockStart)
			if start == nil {
				continue
			}
			if r, ok := start.Block.(*blockstream.ToolResult); ok {
				var artifact struct{ Data []blockstream.DataPart }
				if text = r.Content; r.Artifact != nil {
					must(t, json.Unmarshal(r.Artifact, &artifact))
				}
				for _, d := range artifact.Data {
					data = append(data, strings.TrimSpace(d.MediaType+" "+d.URL))
				}
			}
		}
	}
	return text, data
}

// splitData returns the text of an output, and the types and URLs of its data.
func splitData(all []string) (text string, data []string) {
	var texts []string
	for _, s := range all {
		kind, rest, _ := strings.Cut(s, " ")
		switch {
		case kind == "text":
			texts = append(texts, rest)
		case strings.Contains(rest, "://"):
			data = append(data, s)
		default:
			data = append(data, kind)
		}
	}
	return message.JoinTexts(texts), data
}

func fold(t *rapid.T, events []message.Event) *message.Msg {
	m := &message.Msg{ID: "r1", Name: "bot", Role: message.RoleAssistant, CreatedAt: "2026-03-01T09:00:00", Content: []message.Block{}}
	for _, e := range events {
		must(t, message.Append(m, e))
	}
	return m
}

func readAGUI(t *rapid.T, content string) message.Content {
	in, err := agui.DecodeRunInput([]byte(`{"threadId":"s1","runId":"run","tools":[],"context":[],"messages":[{"id":"m","role":"tool","toolCallId":"c1","content":` + content + `}]}`))
	must(t, err)
	return in.ToolResults(map[string]message.ToolCallBlock{"c1": {ID: "c1", Name: "f"}})[0].Output
}

func throughDicts(t *rapid.T, m *message.Msg) message.Content {
	c := v1.Codec{}
	dicts, err := c.FromMsgs([]*message.Msg{m})
	must(t, err)
	var list []string
	for _, d := range dicts {
		raw, err := c.AppendMsg(nil, d)
		must(t, err)
		list = append(list, string(raw))
	}
	return readDicts(t, "["+strings.Join(list, ",")+"]")
}

func readDicts(t *rapid.T, list string) message.Content {
	dicts, err := v1.Codec{}.DecodeMsgs([]byte(list))
	must(t, err)
	msgs, err := v1.Codec{}.ToMsgs(dicts)
	must(t, err)
	return msgs[0].ToolResult("c1").Output
}

func quoted(t *rapid.T, s string) string {
	b, err := json.Marshal(s)
	must(t, err)
	return string(b)
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
