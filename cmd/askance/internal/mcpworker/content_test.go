package mcpworker

import (
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// No part of an answer is lost or changed. A part that has no block becomes text, unchanged.
func TestReadAnswer(t *testing.T) {
	for name, tt := range map[string]struct{ result, state, want string }{
		"text":        {`{"content":[{"type":"text","text":"a<b"}]}`, "", `a<b`},
		"nothing":     {`{"content":[]}`, "", ``},
		"error":       {`{"content":[{"type":"text","text":"no"}],"isError":true}`, "error", `no`},
		"image":       {`{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}`, "", `{"source":{"data":"AAAA","media_type":"image/png","type":"base64"},"type":"data"}`},
		"resource":    {`{"content":[{"type":"resource","resource":{"uri":"f:/x","text":"hi"}},{"type":"resource","resource":{"uri":"f:/y","blob":"AAAA"}}]}`, "", `{"text":"hi","type":"text"} {"source":{"data":"AAAA","media_type":"application/octet-stream","type":"base64"},"type":"data"}`},
		"link":        {`{"content":[{"type":"resource_link","uri":"https://h/x", "name":"x"}]}`, "", `{"type":"resource_link","uri":"https://h/x", "name":"x"}`},
		"new type":    {`{"content":[{"type":"hologram","n":9007199254740993}],"later":1}`, "", `{"type":"hologram","n":9007199254740993}`},
		"structured":  {`{"content":[],"structuredContent":{"n":9007199254740993}}`, "", `{"n":9007199254740993}`},
		"twice":       {`{"content":[{"type":"text","text":"{\"a\": 1}"}],"structuredContent":{"a":1}}`, "", `{"a": 1}`},
		"both":        {`{"content":[{"type":"text","text":"one"}],"structuredContent":{"a":1}}`, "", `{"text":"one","type":"text"} {"text":"{\"a\":1}","type":"text"}`},
		"no content":  {`{}`, "", ``},
		"cut text":    {`{"content":[{"type":"text","text":"a\ud83d <b>"}],"structuredContent":{"t":"` + "\xff" + `","n":1E400}}`, "", `{"text":"a� <b>","type":"text"} {"text":"{\"t\":\"�\",\"n\":1E400}","type":"text"}`},
		"not an item": {`{"content":[1]}`, "", `1`},
	} {
		out, err := readAnswer(&jsonrpc.Response{Result: []byte(tt.result)})
		if got := render(out.Content); err != nil || string(out.State) != tt.state || got != tt.want {
			t.Errorf("%s: %s %s, %v; want %s %s", name, out.State, got, err, tt.state, tt.want)
		}
	}
	for _, result := range []string{`null`, `{"content":"x"}`, `{"content":[],"content":[]}`, `{"task":{"taskId":"1"}}`, `{"resultType":"task"}`} {
		if _, err := readAnswer(&jsonrpc.Response{Result: []byte(result)}); !errors.Is(err, executor.ErrUnknownOutcome) {
			t.Errorf("an answer that cannot be read: %v", err)
		}
	}
	if _, err := readAnswer(&jsonrpc.Response{Result: []byte(`{"resultType":"input_required"}`)}); err == nil || errors.Is(err, executor.ErrUnknownOutcome) {
		t.Errorf("a request for input: %v", err)
	}
	if _, err := readAnswer(&jsonrpc.Response{Error: &jsonrpc.Error{Code: -32602, Message: "bad"}}); err == nil || !strings.Contains(err.Error(), "bad") {
		t.Errorf("a protocol error: %v", err)
	}
}

// A resource that becomes data keeps its address as the name.
func TestNameOfAResource(t *testing.T) {
	out, err := readAnswer(&jsonrpc.Response{Result: []byte(`{"content":[{"type":"resource","resource":{"uri":"f:/y","blob":"AAAA"}}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := out.Content.Blocks[0].(*message.DataBlock); !ok || d.Name == nil || *d.Name != "f:/y" {
		t.Errorf("the block is %+v", out.Content.Blocks[0])
	}
}

// render returns the content as JSON without ids and times, or as text if it is only text.
func render(c message.Content) string {
	if !c.IsList() {
		return c.Text
	}
	var out []string
	for _, b := range c.Blocks {
		j, _ := strictjson.Marshal(b)
		v, _ := strictjson.Object(j)
		for _, name := range []string{"id", "created_at", "finished_at", "name"} {
			delete(v, name)
		}
		j, _ = strictjson.Marshal(v)
		out = append(out, string(j))
	}
	return strings.Join(out, " ")
}
