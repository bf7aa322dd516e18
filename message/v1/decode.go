package v1

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/object"
)

// Everything in this file returns *strictjson.Error, with places seen from the
// value that was passed in.

func (c Codec) msg(raw []byte) (*Msg, error) {
	r := object.Read(raw)
	if err := r.Err(); err != nil {
		return nil, err
	}
	d, err := detect(r)
	if err != nil {
		return nil, err
	}
	if d == V01 {
		return msg01(r)
	}
	return c.msg1(r)
}

// msg1 reads a dict of 1.x. Members that it does not know are dropped.
func (c Codec) msg1(r *object.Reader) (*Msg, error) {
	m := &Msg{Name: r.Text("name"), Role: role(r), InvocationID: r.TextOr("invocation_id", "")}
	if m.ID = r.TextOr("id", ""); !r.Has("id") {
		m.ID = c.newID()
	}
	if m.Timestamp = r.TextOr("timestamp", ""); !r.Has("timestamp") {
		m.Timestamp = c.now()
	}
	r.Need("content", func(raw []byte) (err error) {
		switch k := strictjson.KindOf(raw); k {
		case "string":
			m.Content.Text, err = strictjson.Text(raw)
		case "array":
			m.Content.Blocks, err = blocks(raw, block1)
		default:
			err = strictjson.Wrong(strictjson.ErrType, "want string or array, got %s", k)
		}
		return err
	})
	m.Metadata = metadata(r)
	if !r.There("metadata") {
		m.Metadata = message.RawJSON("{}")
	}
	return m, r.Err()
}

// members01 are the only members of a 0.1.x dict; more are a TypeError there.
var members01 = []string{"__module__", "__name__", "id", "name", "role", "content", "metadata", "timestamp", "url"}

// msg01 reads a dict of 0.1.x.
func msg01(r *object.Reader) (*Msg, error) {
	r.Only(members01...)
	if module, name := r.Text("__module__"), r.Text("__name__"); r.Err() == nil && (!strings.HasPrefix(module, "agentscope.") || name != "Msg") {
		r.Fail(strictjson.ErrType, "%.60q of %.60q is no agentscope Msg", name, module)
	}
	if r.Has("metadata") && strictjson.KindOf(r.Raw("metadata", "")) != "object" {
		r.Need("metadata", func(raw []byte) error { // a level is added when it is written as V1
			return strictjson.Check(raw, strictjson.MaxBytes(len(raw)), strictjson.MaxDepth(maxDepth-2))
		})
	}
	m := &Msg{Dialect: V01, ID: r.Text("id"), Name: r.Text("name"), Role: role(r), Timestamp: r.Text("timestamp"), Metadata: metadata(r)}
	if r.There("url") {
		m.Content = readOldContent(r)
		return m, r.Err()
	}
	r.Need("content", func(raw []byte) (err error) {
		switch k := strictjson.KindOf(raw); k {
		case "null":
			m.Content = List()
		case "string":
			m.Content.Text, err = strictjson.Text(raw)
		case "array":
			m.Content.Blocks, err = blocks(raw, block01)
		default:
			err = strictjson.Wrong(strictjson.ErrType, "want string or array, got %s", k)
		}
		return err
	})
	return m, r.Err()
}

// readOldContent reads the content of 0.1.0 to 0.1.2, any JSON value, and the urls
// beside it.
func readOldContent(r *object.Reader) Content {
	var c Content
	r.Need("metadata", func([]byte) error { return nil }) // exactly these members
	r.Need("content", func(raw []byte) (err error) {
		switch strictjson.KindOf(raw) {
		case "string":
			c.Text, err = strictjson.Text(raw)
		case "array":
			if c.Blocks, err = blocks(raw, block01); err != nil {
				c, err = Content{Text: string(raw)}, nil // a value like others
			}
		case "null":
			c = List()
		default:
			c.Text = string(raw)
		}
		return err
	})
	var urls []string
	r.May("url", func(raw []byte) error {
		if strictjson.KindOf(raw) == "string" {
			u, err := strictjson.Text(raw)
			urls = append(urls, u)
			return err
		}
		return object.Each(raw, func(raw []byte) error {
			u, err := strictjson.Text(raw)
			urls = append(urls, u)
			return err
		})
	})
	if len(urls) > 0 && !c.IsList() {
		c = List(&TextBlock{Text: c.Text})
	}
	for _, u := range urls {
		c.Blocks = append(c.Blocks, &MediaBlock{Kind: kindOf(guess(u, "")), URL: u})
	}
	return c
}

func role(r *object.Reader) message.MsgRole {
	s := message.MsgRole(r.Text("role"))
	if !s.Valid() {
		r.Fail(strictjson.ErrType, "role %.60q is none of user, assistant, system", string(s))
	}
	return s
}

// metadata is any value; null is nil.
func metadata(r *object.Reader) message.RawJSON {
	if !r.Has("metadata") {
		return nil
	}
	return r.Raw("metadata", "")
}

func blocks(raw []byte, read func(*object.Reader, []byte) (Block, error)) ([]Block, error) {
	list := []Block{}
	err := object.Each(raw, func(raw []byte) error {
		r := object.Read(raw)
		if err := r.Err(); err != nil {
			return err
		}
		b, err := read(r, raw)
		list = append(list, b)
		return err
	})
	return list, err
}

// block01 reads a block of 0.1.x: only what it knows, without extra members.
func block01(r *object.Reader, _ []byte) (Block, error) {
	switch t := BlockType(r.Text("type")); t {
	case BlockText:
		return &TextBlock{Text: r.Text("text")}, r.Err()
	case BlockImage, BlockAudio, BlockVideo, BlockFile:
		return &MediaBlock{Kind: t, URL: r.Text("url")}, r.Err()
	case BlockToolUse:
		return toolUse(r), r.Err()
	case BlockToolResult:
		b := &ToolResultBlock{ID: message.CallID(r.Text("id")), Name: r.TextOr("name", "")}
		r.Need("output", func(raw []byte) (err error) {
			if strictjson.KindOf(raw) == "string" {
				b.Output.Text, err = strictjson.Text(raw)
				return err
			}
			b.Output.Raw = bytes.Clone(raw)
			return nil
		})
		return b, r.Err()
	default:
		r.Fail(strictjson.ErrType, "block type %.60q is not of 0.1.x", string(t))
		return nil, r.Err()
	}
}

// block1 reads a block of 1.x. What has no known type is kept unread.
func block1(r *object.Reader, raw []byte) (Block, error) {
	switch t := BlockType(typeOf(r)); t {
	case BlockText:
		return &TextBlock{Text: r.Text("text"), Extra: extra(r, "text")}, r.Err()
	case BlockThinking:
		return &ThinkingBlock{Thinking: r.Text("thinking"), Extra: extra(r, "thinking")}, r.Err()
	case BlockImage, BlockAudio, BlockVideo, BlockFile:
		return media(r, t)
	case BlockToolUse:
		b := toolUse(r)
		b.RawInput, b.Extra = r.TextPtr("raw_input"), extra(r, "id", "name", "input", "raw_input")
		return b, r.Err()
	case BlockToolResult:
		return toolResult(r)
	default:
		return &UnknownBlock{Kind: t, Raw: bytes.Clone(raw)}, nil
	}
}

func toolUse(r *object.Reader) *ToolUseBlock {
	b := &ToolUseBlock{ID: message.CallID(r.Text("id")), Name: r.Text("name"), Input: r.Raw("input", "object")}
	if b.Input == nil {
		r.Fail(strictjson.ErrMissingMember, "%q, an object", "input")
	}
	return b
}

func toolResult(r *object.Reader) (Block, error) {
	b := &ToolResultBlock{ID: message.CallID(r.Text("id")), Name: r.TextOr("name", ""), Extra: extra(r, "id", "name", "output")}
	r.Need("output", func(raw []byte) (err error) {
		switch k := strictjson.KindOf(raw); k {
		case "string":
			b.Output.Text, err = strictjson.Text(raw)
		case "array":
			b.Output.Blocks, err = blocks(raw, func(r *object.Reader, raw []byte) (Block, error) {
				switch BlockType(typeOf(r)) {
				case BlockToolUse, BlockToolResult:
					return nil, strictjson.Wrong(strictjson.ErrType, "a tool block inside a result")
				}
				return block1(r, raw)
			})
		default:
			err = strictjson.Wrong(strictjson.ErrType, "want string or array, got %s", k)
		}
		return err
	})
	return b, r.Err()
}

// media reads a source, or the flat url of the older dialect.
func media(r *object.Reader, t BlockType) (Block, error) {
	b := &MediaBlock{Kind: t, Extra: extra(r, "source", "url")}
	switch source, flat := r.There("source"), r.There("url"); {
	case source && flat:
		r.Fail(strictjson.ErrDuplicateName, "both %q and %q", "source", "url")
	case flat:
		b.URL = r.Text("url")
	default:
		r.Need("source", func(raw []byte) error {
			s := object.Read(raw)
			switch t := s.Text("type"); t {
			case "url":
				b.URL = s.Text("url")
			case "base64":
				b.Data, b.MediaType = s.Text("data"), s.Text("media_type")
				if b.MediaType == "" {
					s.Fail(strictjson.ErrType, "media_type is empty")
				}
			default:
				s.Fail(strictjson.ErrType, "source type %.60q is none of url, base64", t)
			}
			return s.Err()
		})
	}
	return b, r.Err()
}

// extra keeps the members that the block type does not have.
func extra(r *object.Reader, own ...string) []message.Member {
	var out []message.Member
	for _, m := range r.Members() {
		if m.Name != "type" && !slices.Contains(own, m.Name) {
			out = append(out, message.Member{Name: m.Name, Value: bytes.Clone(m.Value)})
		}
	}
	return out
}

// now is a timestamp of 1.x.
func (c Codec) now() string {
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	t := now()
	if c.Location != nil {
		t = t.In(c.Location)
	}
	return t.Format(layout1)
}
