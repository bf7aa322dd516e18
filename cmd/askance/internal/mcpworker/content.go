package mcpworker

import (
	"cmp"

	"github.com/askance-dev/askance/cmd/askance/internal/toolimport"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// maxAnswer bounds the size of an answer; a result can hold much less.
const maxAnswer = 16 * toolcall.MaxOutputBytes

func decodeAnswer(data []byte) (answer, error) {
	var a answer
	err := strictjson.UnmarshalOpen(data, &a, strictjson.MaxBytes(maxAnswer))
	return a, err
}

// content is a content block of any type.
type content struct {
	Type     string   `json:"type"`
	Text     *string  `json:"text"`
	Data     string   `json:"data"`
	MIME     string   `json:"mimeType"`
	URI      string   `json:"uri"`
	Resource resource `json:"resource"`
}

// resource is what a server embeds.
type resource struct {
	URI  string  `json:"uri"`
	MIME string  `json:"mimeType"`
	Text *string `json:"text"`
	Blob string  `json:"blob"`
}

// blocks returns the blocks of the answer. Content without a matching block type becomes
// text, as the server wrote it.
func (a answer) blocks() []message.Block {
	var out []message.Block
	structured := len(a.Structured) > 0 && strictjson.KindOf(a.Structured) != "null"
	for _, raw := range a.Content {
		b := blockOf(raw)
		if t, ok := b.(*message.TextBlock); ok && structured && toolimport.SameJSON([]byte(t.Text), a.Structured) {
			structured = false // the server repeats it as text, for clients that do not know it
		}
		out = append(out, b)
	}
	if structured {
		out = append(out, text(string(a.Structured)))
	}
	return out
}

func blockOf(raw message.RawJSON) message.Block {
	var c content
	if err := strictjson.UnmarshalOpen(raw, &c, strictjson.MaxBytes(maxAnswer)); err != nil {
		return text(string(raw))
	}
	switch {
	case c.Type == "text" && c.Text != nil:
		return text(*c.Text)
	case (c.Type == "image" || c.Type == "audio") && c.MIME != "":
		return data(c.MIME, c.Data)
	case c.Type == "resource" && c.Resource.Text != nil:
		return text(*c.Resource.Text)
	case c.Type == "resource" && c.Resource.Blob != "":
		kind := cmp.Or(c.Resource.MIME, "application/octet-stream")
		return data(kind, c.Resource.Blob)
	}
	return text(string(raw)) // a link, or a type of later servers
}

func text(s string) message.Block { return &message.TextBlock{Text: s} }

func data(kind, base64 string) message.Block {
	return &message.DataBlock{Source: &message.Base64Source{MediaType: kind, Data: base64}}
}
