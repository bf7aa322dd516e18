package message

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/weburl"
	"github.com/askance-dev/askance/message/internal/wire"
)

// marshal encodes the struct that v points to: every member, in the order of its fields. The
// zero Codec can read back the result.
func marshal(v any) ([]byte, error) { return format.Append(nil, v) }

func writeBlock(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	b, _ := reflect.TypeAssert[Block](v)
	return appendBlock(f, dst, b)
}

func appendBlock(f *wire.Format, dst []byte, b Block) ([]byte, error) {
	switch u, unknown := b.(*UnknownBlock); {
	case b == nil:
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "nothing is set")
	case reflect.ValueOf(b).IsNil():
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "a nil %T", b)
	case unknown:
		return f.AppendRaw(dst, u.Raw)
	default:
		return f.Append(dst, b)
	}
}

func writeContent(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	c := v.Interface().(Content)
	if !c.IsList() {
		return strictjson.AppendString(dst, c.Text)
	}
	dst = append(dst, '[')
	for i, b := range c.Blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if b != nil && !contentHolds(b.Type()) {
			err = strictjson.Wrong(strictjson.ErrType, "a %s block is not allowed here, only text and data", b.Type())
		} else {
			dst, err = appendBlock(f, dst, b)
		}
		if err != nil {
			return dst, strictjson.Within(err, "encode", "/"+strconv.Itoa(i), -1)
		}
	}
	return append(dst, ']'), nil
}

func (c Codec) reader() *wire.Reader { return &wire.Reader{Format: &format, Codec: c} }

// decodeInto decodes one object into v, a pointer to a struct of this package.
func (c Codec) decodeInto(data []byte, v any) error { return c.reader().Read(data, v) }

// verify checks conditions that involve several members.
func verify(v any, reading bool) error {
	switch v := v.(type) {
	case *Msg:
		if !reading {
			return nil
		}
		if i, err := v.findMisplaced(); err != nil {
			return strictjson.Within(strictjson.Wrong(strictjson.ErrType, "%s", err), "decode", "/content/"+strconv.Itoa(i), -1)
		}
	case *ToolResultDataDelta:
		return v.verify()
	}
	return nil
}

// The structs of this package define AgentScope's fields in their tags, which package wire
// uses to read and write.

// format is AgentScope 2.0's use of JSON.
var format = wire.Format{
	Name:   typeName,
	Words:  wordsOf,
	Rules:  map[string]func(string) (string, error){"url": normalizeURL},
	Verify: verify,
	Generate: func(r *wire.Reader, what string) string {
		c := r.Codec.(Codec)
		if what == "id" {
			return c.newID()
		}
		return c.now()
	},
	Types: map[reflect.Type]wire.Type{
		reflect.TypeFor[Block]():   {Read: readInto(readBlock), Write: writeBlock},
		reflect.TypeFor[Source]():  {Read: readInto(readSource)},
		reflect.TypeFor[Content](): {Read: readInto(readContent), Write: writeContent},
	},
}

// readInto converts a function that returns a value to a reader.
func readInto[T any](read func(*wire.Reader, []byte) (T, error)) func(*wire.Reader, []byte, reflect.Value) error {
	return func(r *wire.Reader, raw []byte, v reflect.Value) error {
		value, err := read(r, raw)
		*v.Addr().Interface().(*T) = value
		return err
	}
}

func normalizeURL(text string) (string, error) {
	u, err := weburl.Normalize(text)
	if err != nil {
		return "", strictjson.Wrong(strictjson.ErrType, "%s", err)
	}
	return u, nil
}

// word is a string type with a closed list of values, which does not include its zero value.
type word interface {
	// Valid reports whether the value is exactly one on the list.
	Valid() bool
	// words returns the list, separated by comma and space.
	words() string
}

// Words returns the values of a type with a closed list of them, such as [ToolCallState].
func Words[T word]() []string {
	var w T
	return strings.Split(w.words(), ", ")
}

func isWord(s, list string) bool {
	for w := range strings.SplitSeq(list, ", ") {
		if s == w {
			return true
		}
	}
	return false
}

func wordsOf(t reflect.Type) []string {
	if w, ok := reflect.TypeAssert[word](reflect.Zero(t)); ok {
		return strings.Split(w.words(), ", ")
	}
	return nil
}

// newBlock returns an empty block of a type, or nil if the type is unknown.
func newBlock(t BlockType) Block {
	switch t {
	case BlockText:
		return new(TextBlock)
	case BlockThinking:
		return new(ThinkingBlock)
	case BlockData:
		return new(DataBlock)
	case BlockHint:
		return new(HintBlock)
	case BlockToolCall:
		return new(ToolCallBlock)
	case BlockToolResult:
		return new(ToolResultBlock)
	}
	return nil
}

// readBlock reads a block by its type member, which is required: if the type were guessed
// from the members, an attacker could choose it.
func readBlock(r *wire.Reader, raw []byte) (Block, error) {
	members, t, err := readType(raw)
	if err != nil {
		return nil, err
	}
	b := newBlock(BlockType(t))
	if b == nil {
		if r.Codec.(Codec).RefuseUnknown {
			return nil, strictjson.Wrong(strictjson.ErrType, "unknown block type %.60q", t)
		}
		return unknownBlock(BlockType(t), members, raw), nil
	}
	return b, r.Members(members, reflect.ValueOf(b).Elem())
}

func unknownBlock(t BlockType, members []strictjson.Member, raw []byte) *UnknownBlock {
	return &UnknownBlock{Kind: t, ID: strictjson.TextMember(members, "id"), Raw: bytes.Clone(raw)}
}

// readContent reads a string or a list of blocks.
func readContent(r *wire.Reader, raw []byte) (Content, error) {
	if strictjson.KindOf(raw) == "string" {
		s, err := strictjson.Text(raw)
		return Content{Text: s}, err
	}
	items, err := strictjson.Items(raw)
	if err != nil {
		return Content{}, strictjson.Wrong(strictjson.ErrType, "want string or array, got %s", strictjson.KindOf(raw))
	}
	blocks := make([]Block, len(items))
	for i, item := range items {
		b, err := readBlock(r, item.Value)
		if err == nil && !contentHolds(b.Type()) {
			err = strictjson.Wrong(strictjson.ErrType, "a %s block is not allowed here, only text and data", b.Type())
		}
		if err != nil {
			return Content{}, strictjson.Within(err, "decode", "/"+strconv.Itoa(i), int64(item.Offset))
		}
		blocks[i] = b
	}
	return Content{Blocks: blocks}, nil
}

// readSource reads a source. If it has no type, the presence of data or url decides.
func readSource(r *wire.Reader, raw []byte) (Source, error) {
	members, err := strictjson.Members(raw)
	if err != nil {
		return nil, err
	}
	var t string
	if strictjson.Find(members, wire.TypeMember) != nil {
		t, err = typeMember(members)
	} else {
		t, err = guessSource(members)
	}
	switch {
	case err != nil:
		return nil, err
	case t == string(SourceBase64):
		s := new(Base64Source)
		return s, r.Members(members, reflect.ValueOf(s).Elem())
	case t == string(SourceURL):
		s := new(URLSource)
		return s, r.Members(members, reflect.ValueOf(s).Elem())
	default:
		return nil, strictjson.Wrong(strictjson.ErrType, "source type %.60q is neither base64 nor url", t)
	}
}

func guessSource(members []strictjson.Member) (string, error) {
	switch data, url := strictjson.Find(members, "data") != nil, strictjson.Find(members, "url") != nil; {
	case data && !url:
		return string(SourceBase64), nil
	case url && !data:
		return string(SourceURL), nil
	default:
		return "", strictjson.Wrong(strictjson.ErrMissingMember, "%q, and exactly one of data and url", wire.TypeMember)
	}
}

// readType splits an object that must name its type.
func readType(raw []byte) ([]strictjson.Member, string, error) {
	members, err := strictjson.Members(raw)
	if err != nil {
		return nil, "", err
	}
	t, err := typeMember(members)
	return members, t, err
}

// typeMember returns the type, which must be a string.
func typeMember(members []strictjson.Member) (string, error) {
	for _, m := range members {
		if m.Name == wire.TypeMember {
			s, err := strictjson.Text(m.Value)
			if err != nil {
				return "", strictjson.Within(err, "decode", "/"+wire.TypeMember, int64(m.Offset))
			}
			return s, nil
		}
	}
	return "", strictjson.Wrong(strictjson.ErrMissingMember, "%q", wire.TypeMember)
}

// typeName returns the wire type of a struct of this package.
func typeName(v any) string {
	switch v := v.(type) {
	case Block:
		return string(v.Type())
	case Source:
		return string(v.Type())
	case Event:
		return string(v.Type())
	}
	return ""
}

var eventStructs = func() map[EventType]reflect.Type {
	structs := map[EventType]reflect.Type{}
	for _, e := range []Event{
		new(ReplyStart), new(ReplyEnd), new(ModelCallStart), new(ModelCallEnd), new(ExceedMaxIters), new(UserInterrupt), new(Custom),
		new(TextBlockStart), new(TextBlockDelta), new(TextBlockEnd), new(ThinkingBlockStart), new(ThinkingBlockDelta), new(ThinkingBlockEnd),
		new(DataBlockStart), new(DataBlockDelta), new(DataBlockEnd), new(HintBlockEvent),
		new(ToolCallStart), new(ToolCallDelta), new(ToolCallEnd),
		new(ToolResultStart), new(ToolResultTextDelta), new(ToolResultDataDelta), new(ToolResultEnd),
		new(RequireUserConfirm), new(UserConfirmResult), new(RequireExternalExecution), new(ExternalExecutionResult),
	} {
		structs[e.Type()] = reflect.TypeOf(e).Elem()
	}
	return structs
}()

// newEvent returns an empty event, or nil for unknown types.
func newEvent(t EventType) Event {
	s, known := eventStructs[t]
	if !known {
		return nil
	}
	e, _ := reflect.TypeAssert[Event](reflect.New(s))
	return e
}

// Known reports whether t is one of the 28 types of AgentScope 2.0.
func (t EventType) Known() bool { return newEvent(t) != nil }

func (c Codec) decodeEvent(raw []byte) (Event, error) {
	members, t, err := readType(raw)
	if err != nil {
		return nil, err
	}
	e := newEvent(EventType(t))
	if e == nil {
		if c.RefuseUnknown {
			return nil, strictjson.Wrong(strictjson.ErrType, "unknown event type %.60q", t)
		}
		return unknownEvent(EventType(t), members, raw), nil
	}
	return e, c.reader().Members(members, reflect.ValueOf(e).Elem())
}

// unknownEvent reads the members of the header that have the expected types.
func unknownEvent(t EventType, members []strictjson.Member, raw []byte) *UnknownEvent {
	e := &UnknownEvent{Kind: t, Raw: bytes.Clone(raw)}
	e.ID = strictjson.TextMember(members, "id")
	e.CreatedAt = strictjson.TextMember(members, "created_at")
	e.Reply = ReplyID(strictjson.TextMember(members, "reply_id"))
	metadata := strictjson.Find(members, "metadata")
	e.Metadata, _ = strictjson.Object(metadata, strictjson.MaxBytes(len(metadata)), strictjson.KeepBigIntegers())
	return e
}

// Every type encodes and decodes itself by its plan (package wire), so it works inside
// structs of other packages and with any JSON library. Decoding uses the zero Codec.

func (r ReplyStart) MarshalJSON() ([]byte, error)                   { return marshal(&r) }
func (r *ReplyStart) UnmarshalJSON(data []byte) error               { return unmarshal(data, r) }
func (r ReplyEnd) MarshalJSON() ([]byte, error)                     { return marshal(&r) }
func (r *ReplyEnd) UnmarshalJSON(data []byte) error                 { return unmarshal(data, r) }
func (m ModelCallStart) MarshalJSON() ([]byte, error)               { return marshal(&m) }
func (m *ModelCallStart) UnmarshalJSON(data []byte) error           { return unmarshal(data, m) }
func (m ModelCallEnd) MarshalJSON() ([]byte, error)                 { return marshal(&m) }
func (m *ModelCallEnd) UnmarshalJSON(data []byte) error             { return unmarshal(data, m) }
func (e ExceedMaxIters) MarshalJSON() ([]byte, error)               { return marshal(&e) }
func (e *ExceedMaxIters) UnmarshalJSON(data []byte) error           { return unmarshal(data, e) }
func (u UserInterrupt) MarshalJSON() ([]byte, error)                { return marshal(&u) }
func (u *UserInterrupt) UnmarshalJSON(data []byte) error            { return unmarshal(data, u) }
func (c Custom) MarshalJSON() ([]byte, error)                       { return marshal(&c) }
func (c *Custom) UnmarshalJSON(data []byte) error                   { return unmarshal(data, c) }
func (t TextBlockStart) MarshalJSON() ([]byte, error)               { return marshal(&t) }
func (t *TextBlockStart) UnmarshalJSON(data []byte) error           { return unmarshal(data, t) }
func (t TextBlockDelta) MarshalJSON() ([]byte, error)               { return marshal(&t) }
func (t *TextBlockDelta) UnmarshalJSON(data []byte) error           { return unmarshal(data, t) }
func (t TextBlockEnd) MarshalJSON() ([]byte, error)                 { return marshal(&t) }
func (t *TextBlockEnd) UnmarshalJSON(data []byte) error             { return unmarshal(data, t) }
func (t ThinkingBlockStart) MarshalJSON() ([]byte, error)           { return marshal(&t) }
func (t *ThinkingBlockStart) UnmarshalJSON(data []byte) error       { return unmarshal(data, t) }
func (t ThinkingBlockDelta) MarshalJSON() ([]byte, error)           { return marshal(&t) }
func (t *ThinkingBlockDelta) UnmarshalJSON(data []byte) error       { return unmarshal(data, t) }
func (t ThinkingBlockEnd) MarshalJSON() ([]byte, error)             { return marshal(&t) }
func (t *ThinkingBlockEnd) UnmarshalJSON(data []byte) error         { return unmarshal(data, t) }
func (d DataBlockStart) MarshalJSON() ([]byte, error)               { return marshal(&d) }
func (d *DataBlockStart) UnmarshalJSON(data []byte) error           { return unmarshal(data, d) }
func (d DataBlockDelta) MarshalJSON() ([]byte, error)               { return marshal(&d) }
func (d *DataBlockDelta) UnmarshalJSON(data []byte) error           { return unmarshal(data, d) }
func (d DataBlockEnd) MarshalJSON() ([]byte, error)                 { return marshal(&d) }
func (d *DataBlockEnd) UnmarshalJSON(data []byte) error             { return unmarshal(data, d) }
func (h HintBlockEvent) MarshalJSON() ([]byte, error)               { return marshal(&h) }
func (h *HintBlockEvent) UnmarshalJSON(data []byte) error           { return unmarshal(data, h) }
func (t ToolCallStart) MarshalJSON() ([]byte, error)                { return marshal(&t) }
func (t *ToolCallStart) UnmarshalJSON(data []byte) error            { return unmarshal(data, t) }
func (t ToolCallDelta) MarshalJSON() ([]byte, error)                { return marshal(&t) }
func (t *ToolCallDelta) UnmarshalJSON(data []byte) error            { return unmarshal(data, t) }
func (t ToolCallEnd) MarshalJSON() ([]byte, error)                  { return marshal(&t) }
func (t *ToolCallEnd) UnmarshalJSON(data []byte) error              { return unmarshal(data, t) }
func (t ToolResultStart) MarshalJSON() ([]byte, error)              { return marshal(&t) }
func (t *ToolResultStart) UnmarshalJSON(data []byte) error          { return unmarshal(data, t) }
func (t ToolResultTextDelta) MarshalJSON() ([]byte, error)          { return marshal(&t) }
func (t *ToolResultTextDelta) UnmarshalJSON(data []byte) error      { return unmarshal(data, t) }
func (t ToolResultDataDelta) MarshalJSON() ([]byte, error)          { return marshal(&t) }
func (t *ToolResultDataDelta) UnmarshalJSON(data []byte) error      { return unmarshal(data, t) }
func (t ToolResultEnd) MarshalJSON() ([]byte, error)                { return marshal(&t) }
func (t *ToolResultEnd) UnmarshalJSON(data []byte) error            { return unmarshal(data, t) }
func (r RequireUserConfirm) MarshalJSON() ([]byte, error)           { return marshal(&r) }
func (r *RequireUserConfirm) UnmarshalJSON(data []byte) error       { return unmarshal(data, r) }
func (u UserConfirmResult) MarshalJSON() ([]byte, error)            { return marshal(&u) }
func (u *UserConfirmResult) UnmarshalJSON(data []byte) error        { return unmarshal(data, u) }
func (r RequireExternalExecution) MarshalJSON() ([]byte, error)     { return marshal(&r) }
func (r *RequireExternalExecution) UnmarshalJSON(data []byte) error { return unmarshal(data, r) }
func (e ExternalExecutionResult) MarshalJSON() ([]byte, error)      { return marshal(&e) }
func (e *ExternalExecutionResult) UnmarshalJSON(data []byte) error  { return unmarshal(data, e) }

// MarshalJSON returns the bytes of Raw.
func (e UnknownEvent) MarshalJSON() ([]byte, error) { return format.AppendRaw(nil, e.Raw) }

// UnmarshalJSON stores data as Raw; its type must be present.
func (e *UnknownEvent) UnmarshalJSON(data []byte) error {
	members, t, err := readType(data)
	if err != nil {
		return err
	}
	*e = *unknownEvent(EventType(t), members, data)
	return nil
}

func (t TextBlock) MarshalJSON() ([]byte, error)             { return marshal(&t) }
func (t *TextBlock) UnmarshalJSON(data []byte) error         { return unmarshal(data, t) }
func (t ThinkingBlock) MarshalJSON() ([]byte, error)         { return marshal(&t) }
func (t *ThinkingBlock) UnmarshalJSON(data []byte) error     { return unmarshal(data, t) }
func (d DataBlock) MarshalJSON() ([]byte, error)             { return marshal(&d) }
func (d *DataBlock) UnmarshalJSON(data []byte) error         { return unmarshal(data, d) }
func (h HintBlock) MarshalJSON() ([]byte, error)             { return marshal(&h) }
func (h *HintBlock) UnmarshalJSON(data []byte) error         { return unmarshal(data, h) }
func (t ToolCallBlock) MarshalJSON() ([]byte, error)         { return marshal(&t) }
func (t *ToolCallBlock) UnmarshalJSON(data []byte) error     { return unmarshal(data, t) }
func (t ToolResultBlock) MarshalJSON() ([]byte, error)       { return marshal(&t) }
func (t *ToolResultBlock) UnmarshalJSON(data []byte) error   { return unmarshal(data, t) }
func (b Base64Source) MarshalJSON() ([]byte, error)          { return marshal(&b) }
func (b *Base64Source) UnmarshalJSON(data []byte) error      { return unmarshal(data, b) }
func (u URLSource) MarshalJSON() ([]byte, error)             { return marshal(&u) }
func (u *URLSource) UnmarshalJSON(data []byte) error         { return unmarshal(data, u) }
func (x Msg) MarshalJSON() ([]byte, error)                   { return marshal(&x) }
func (x *Msg) UnmarshalJSON(data []byte) error               { return unmarshal(data, x) }
func (c ConfirmResult) MarshalJSON() ([]byte, error)         { return marshal(&c) }
func (c *ConfirmResult) UnmarshalJSON(data []byte) error     { return unmarshal(data, c) }
func (p PermissionContext) MarshalJSON() ([]byte, error)     { return marshal(&p) }
func (p *PermissionContext) UnmarshalJSON(data []byte) error { return unmarshal(data, p) }

// UnmarshalJSON implements json.Unmarshaler; all four members must be present.
func (p *PermissionRule) UnmarshalJSON(data []byte) error { return unmarshal(data, p) }

func (c Content) MarshalJSON() ([]byte, error) {
	return writeContent(&format, nil, reflect.ValueOf(c))
}

func (c *Content) UnmarshalJSON(data []byte) (err error) {
	*c, err = readContent(Codec{}.reader(), data)
	return err
}

// MarshalJSON returns the bytes of Raw.
func (b UnknownBlock) MarshalJSON() ([]byte, error) { return format.AppendRaw(nil, b.Raw) }

// UnmarshalJSON stores data as Raw; its type must be present.
func (b *UnknownBlock) UnmarshalJSON(data []byte) error {
	members, t, err := readType(data)
	if err != nil {
		return err
	}
	*b = *unknownBlock(BlockType(t), members, data)
	return nil
}
