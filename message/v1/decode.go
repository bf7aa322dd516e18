package v1

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/wire"
)

// format is the JSON format of both dialects. The Codec of a Reader is V1 or a
// reading01.
var format = wire.Format{
	Name: func(v any) string {
		switch b := v.(type) {
		case *MediaBlock, *UnknownBlock: // they have a type of their own
			return ""
		case Block:
			return string(b.Type())
		}
		return ""
	},
	Types: map[reflect.Type]wire.Type{
		reflect.TypeFor[Block]():                  {Read: readBlock, Write: writeBlock},
		reflect.TypeFor[Content]():                {Read: readContent, Write: writeContent},
		reflect.TypeFor[content01]():              {Read: readContent01, Write: writeContent01},
		reflect.TypeFor[Output]():                 {Read: readOutput, Write: writeOutput},
		reflect.TypeFor[message.PermissionRule](): {Read: readRule},
	},
}

// dict1 is a dict of 1.x. Other members are dropped.
type dict1 struct {
	ID           *string         `json:"id"` // nil: generated
	Name         string          `json:"name" wire:"required"`
	Role         message.MsgRole `json:"role" wire:"required,in=user assistant system"`
	Content      Content         `json:"content" wire:"required"`
	Metadata     message.RawJSON `json:"metadata" wire:"any,null,default={}"`
	Timestamp    *string         `json:"timestamp"` // nil: generated
	InvocationID string          `json:"invocation_id" wire:"null,omit"`
}

// dict01 is a dict of 0.1.x, where other members are a TypeError.
type dict01 struct {
	Module    string          `json:"__module__" wire:"required"`
	Class     string          `json:"__name__" wire:"required"`
	ID        string          `json:"id" wire:"required"`
	Name      string          `json:"name" wire:"required"`
	Role      message.MsgRole `json:"role" wire:"required,in=user assistant system"`
	Content   content01       `json:"content" wire:"required"`
	Metadata  message.RawJSON `json:"metadata" wire:"any,null"`
	Timestamp string          `json:"timestamp" wire:"required"`
	URL       message.RawJSON `json:"url" wire:"any,omit"` // of 0.1.0 to 0.1.2
	_         struct{}        `wire:"closed"`
}

// content01 is a content that may be null or, in a dict with a url, any value.
type content01 Content

func (c Codec) msg(raw []byte) (*Msg, error) {
	members, err := strictjson.Members(raw)
	if err != nil {
		return nil, err
	}
	d, err := detect(members)
	if err != nil {
		return nil, err
	}
	if d == V01 {
		return msg01(members)
	}
	return c.msg1(members)
}

func (c Codec) msg1(members []strictjson.Member) (*Msg, error) {
	var d dict1
	r := wire.Reader{Format: &format, Codec: V1}
	if err := r.Members(members, reflect.ValueOf(&d).Elem()); err != nil {
		return nil, err
	}
	m := &Msg{Name: d.Name, Role: d.Role, Content: d.Content, Metadata: d.Metadata, InvocationID: d.InvocationID}
	if d.ID == nil {
		d.ID = new(c.newID())
	}
	if d.Timestamp == nil {
		d.Timestamp = new(c.now())
	}
	m.ID, m.Timestamp = *d.ID, *d.Timestamp
	return m, nil
}

func msg01(members []strictjson.Member) (*Msg, error) {
	var d dict01
	r := wire.Reader{Format: &format, Codec: reading01{anyContent: has(members, "url")}}
	if err := r.Members(members, reflect.ValueOf(&d).Elem()); err != nil {
		return nil, err
	}
	m := &Msg{Dialect: V01, ID: d.ID, Name: d.Name, Role: d.Role, Content: Content(d.Content), Metadata: d.Metadata, Timestamp: d.Timestamp}
	switch {
	case !strings.HasPrefix(d.Module, "agentscope.") || d.Class != "Msg":
		return nil, strictjson.Wrong(strictjson.ErrType, "%.60q of %.60q is not an agentscope Msg", d.Class, d.Module)
	case d.Metadata != nil && strictjson.KindOf(d.Metadata) != "object": // a level is added when it is written as V1
		if err := strictjson.Check(d.Metadata, strictjson.MaxBytes(len(d.Metadata)), strictjson.MaxDepth(maxDepth-2)); err != nil {
			return nil, strictjson.Within(err, "decode", "/metadata", -1)
		}
	}
	if has(members, "url") {
		if !has(members, "metadata") {
			return nil, strictjson.Wrong(strictjson.ErrMissingMember, "%q", "metadata")
		}
		return m, m.addURLs(d.URL)
	}
	return m, nil
}

// reading01 is the Codec of a Reader of 0.1.x; anyContent is set for 0.1.0 to 0.1.2,
// where a content could be any value.
type reading01 struct{ anyContent bool }

// addURLs adds the urls that 0.1.0 to 0.1.2 wrote next to the content.
func (m *Msg) addURLs(raw message.RawJSON) error {
	var urls []string
	var err error
	switch strictjson.KindOf(raw) {
	case "null":
	case "string":
		urls = make([]string, 1)
		urls[0], err = strictjson.Text(raw)
	default:
		err = (&wire.Reader{Format: &format}).Value(raw, reflect.ValueOf(&urls).Elem())
	}
	if err != nil {
		return strictjson.Within(err, "decode", "/url", -1)
	}
	if len(urls) > 0 && !m.Content.IsList() {
		m.Content = List(&TextBlock{Text: m.Content.Text})
	}
	for _, u := range urls {
		m.Content.Blocks = append(m.Content.Blocks, &MediaBlock{Kind: kindOf(guessMediaType(u, "")), URL: u})
	}
	return nil
}

func readBlocks(r *wire.Reader, raw []byte) ([]Block, error) {
	list := []Block{}
	err := r.Value(raw, reflect.ValueOf(&list).Elem())
	return list, err
}

func readContent(r *wire.Reader, raw []byte, v reflect.Value) (err error) {
	c := v.Addr().Interface().(*Content)
	switch kind := strictjson.KindOf(raw); kind {
	case "string":
		c.Text, err = strictjson.Text(raw)
	case "array":
		c.Blocks, err = readBlocks(r, raw)
	default:
		err = strictjson.Wrong(strictjson.ErrType, "want string or array, got %s", kind)
	}
	return err
}

func readContent01(r *wire.Reader, raw []byte, v reflect.Value) error {
	c := v.Addr().Interface().(*content01)
	if strictjson.KindOf(raw) == "null" {
		*c = content01(List())
		return nil
	}
	err := readContent(r, raw, reflect.ValueOf((*Content)(c)).Elem())
	if err != nil && r.Codec.(reading01).anyContent {
		*c, err = content01{Text: string(raw)}, nil
	}
	return err
}

func writeContent(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	c := v.Addr().Interface().(*Content)
	if !c.IsList() {
		return strictjson.AppendString(dst, c.Text)
	}
	return f.AppendValue(dst, reflect.ValueOf(&c.Blocks).Elem())
}

func writeContent01(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	return writeContent(f, dst, reflect.ValueOf((*Content)(v.Addr().Interface().(*content01))).Elem())
}

// readOutput reads the output of a tool: text, or blocks in 1.x, or any value in 0.1.x.
func readOutput(r *wire.Reader, raw []byte, v reflect.Value) error {
	o := v.Addr().Interface().(*Output)
	if _, old := r.Codec.(reading01); old && strictjson.KindOf(raw) != "string" {
		o.Raw = bytes.Clone(raw)
		return nil
	}
	var c Content
	if err := readContent(r, raw, reflect.ValueOf(&c).Elem()); err != nil {
		return err
	}
	for i, b := range c.Blocks {
		if b.Type() == BlockToolUse || b.Type() == BlockToolResult {
			err := strictjson.Wrong(strictjson.ErrType, "a tool block inside a result")
			return strictjson.Within(err, "decode", "/"+strconv.Itoa(i), -1)
		}
	}
	o.Text, o.Blocks = c.Text, c.Blocks
	return nil
}

func writeOutput(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	o := v.Addr().Interface().(*Output)
	if o.Raw != nil {
		return f.AppendRaw(dst, o.Raw)
	}
	return writeContent(f, dst, reflect.ValueOf(&Content{Text: o.Text, Blocks: o.Blocks}).Elem())
}

// readBlock reads a block. A block whose type 1.x does not know is kept unread.
func readBlock(r *wire.Reader, raw []byte, v reflect.Value) error {
	members, err := strictjson.Members(raw)
	if err != nil {
		return err
	}
	_, old := r.Codec.(reading01)
	var b Block
	switch t := BlockType(strictjson.TextMember(members, wire.TypeMember)); {
	case t == BlockText:
		b = new(TextBlock)
	case t == BlockThinking && !old:
		b = new(ThinkingBlock)
	case slices.Contains(mediaTypes, t):
		b = &MediaBlock{Kind: t}
	case t == BlockToolUse:
		b = new(ToolUseBlock)
	case t == BlockToolResult:
		b = new(ToolResultBlock)
	case old:
		return strictjson.Wrong(strictjson.ErrType, "block type %.60q is not of 0.1.x", string(t))
	default:
		b = &UnknownBlock{Kind: t, Raw: bytes.Clone(raw)}
	}
	v.Set(reflect.ValueOf(b))
	switch b := b.(type) {
	case *UnknownBlock:
		return nil
	case *MediaBlock:
		err = b.read(r, members)
	default:
		err = r.Members(members, reflect.ValueOf(b).Elem())
	}
	if old {
		dropExtra(b)
	}
	return err
}

// dropExtra removes members that blocks of 0.1.x do not have.
func dropExtra(b Block) {
	switch b := b.(type) {
	case *TextBlock:
		b.Extra = nil
	case *MediaBlock:
		b.Extra = nil
	case *ToolUseBlock:
		b.Extra, b.RawInput = nil, nil
	case *ToolResultBlock:
		b.Extra = nil
	case *ThinkingBlock, *UnknownBlock:
	}
}

var mediaTypes = []BlockType{BlockImage, BlockAudio, BlockVideo, BlockFile}

// media is a MediaBlock on the wire: with a source, or in 0.1.x a flat url.
type media struct {
	Type   BlockType        `json:"type" wire:"in=image audio video file"`
	URL    message.RawJSON  `json:"url" wire:"any,omit"`
	Source message.RawJSON  `json:"source" wire:"any,omit"`
	Extra  []message.Member `json:"-" wire:"extra"`
}

type source struct {
	Type      string `json:"type" wire:"variant,in=url base64"`
	URL       string `json:"url" wire:"required,when=url"`
	MediaType string `json:"media_type" wire:"required,when=base64"`
	Data      string `json:"data" wire:"required,when=base64"`
}

func (b *MediaBlock) read(r *wire.Reader, members []strictjson.Member) (err error) {
	var m media
	if err := r.Members(members, reflect.ValueOf(&m).Elem()); err != nil {
		return err
	}
	b.Extra = m.Extra
	_, old := r.Codec.(reading01)
	switch {
	case m.URL != nil && m.Source != nil && !old:
		return strictjson.Wrong(strictjson.ErrDuplicateName, "both %q and %q", "source", "url")
	case m.URL != nil:
		if b.URL, err = strictjson.Text(m.URL); err != nil {
			return strictjson.Within(err, "decode", "/url", -1)
		}
		return nil
	case m.Source == nil || old:
		return strictjson.Wrong(strictjson.ErrMissingMember, "%q", "source")
	}
	var s source
	if err := r.Read(m.Source, &s); err != nil {
		return strictjson.Within(err, "decode", "/source", -1)
	}
	if s.Type == "base64" && s.MediaType == "" {
		return strictjson.Within(strictjson.Wrong(strictjson.ErrType, "media_type is empty"), "decode", "/source", -1)
	}
	b.URL, b.Data, b.MediaType = s.URL, s.Data, s.MediaType
	return nil
}

func writeBlock(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	switch b := v.Interface().(type) {
	case nil:
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "there is no block")
	case *UnknownBlock:
		return f.AppendRaw(dst, b.Raw)
	case *MediaBlock:
		return b.write(f, dst)
	default:
		return f.Append(dst, b)
	}
}

func (b *MediaBlock) write(f *wire.Format, dst []byte) (out []byte, err error) {
	m := &media{Type: b.Kind, Extra: b.Extra}
	switch {
	case b.flat:
		m.URL, err = strictjson.AppendString(nil, b.URL)
	case b.URL != "" || b.MediaType == "":
		m.Source, err = f.Append(nil, &source{Type: "url", URL: b.URL})
	default:
		m.Source, err = f.Append(nil, &source{Type: "base64", MediaType: b.MediaType, Data: b.Data})
	}
	if err != nil {
		return dst, err
	}
	return f.Append(dst, m)
}

func readRule(_ *wire.Reader, raw []byte, v reflect.Value) error {
	return v.Addr().Interface().(*message.PermissionRule).UnmarshalJSON(raw)
}

// now returns the current time as a timestamp of 1.x.
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
