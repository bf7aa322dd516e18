package agui

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/wire"
)

// format is AG-UI's use of JSON: an absent member for nil, never null, and only integers
// that JavaScript represents exactly.
var format = wire.Format{
	NilIsAbsent: true, OneLine: true, SafeInts: true, PlaceMissing: true,
	Name: func(v any) string {
		e, _ := v.(Event)
		return string(TypeOf(e))
	},
	Words: func(t reflect.Type) []string { return words[t] },
	Rules: map[string]func(string) (string, error){"pointer": checkPointer},
	Types: map[reflect.Type]wire.Type{
		reflect.TypeFor[Content](): {Read: readContent, Write: writeContent},
		reflect.TypeFor[Part]():    {Read: readPart},
	},
	Verify: verify,
}

// words are the closed enumerations of AG-UI.
var words = map[reflect.Type][]string{
	reflect.TypeFor[Role]():                {"developer", "system", "user", "assistant", "tool", "reasoning", "activity"},
	reflect.TypeFor[PartType]():            {"text", "image", "audio", "video", "document"},
	reflect.TypeFor[SourceType]():          {"data", "url", "file"},
	reflect.TypeFor[OutcomeType]():         {"success", "interrupt", "cancelled"},
	reflect.TypeFor[SubagentOutcomeType](): {"success", "suspended"},
	reflect.TypeFor[EncryptedSubtype]():    {"tool-call", "message"},
	reflect.TypeFor[PatchOpType]():         {"add", "remove", "replace", "move", "copy", "test"},
	reflect.TypeFor[ResumeStatus]():        {"resolved", "cancelled"},
}

// maxSafe is the largest integer on the wire.
const maxSafe = wire.MaxSafe

// Object is what AG-UI sends as one JSON object: an [Event] or a *[RunInput].
type Object interface{ isObject() }

// AppendJSON appends the object as one line of JSON: the type of an event first, no null
// for an absent member, and every required member. AG-UI's 1.0 client accepts the line
// unchanged. An object without such a form, for example an interrupt without an approval
// request, is an error, and dst is returned unchanged.
func AppendJSON(dst []byte, v Object) ([]byte, error) {
	if e, ok := v.(Event); ok && TypeOf(e) == "" {
		return dst, message.Errorf(message.CodeInvalid, "encode AG-UI event", "a %T is not an event", v)
	}
	out, err := format.Append(dst, v)
	if err != nil {
		return dst, message.DecodeError("encode "+describe(v), err)
	}
	return out, nil
}

// describe names an object in errors.
func describe(v Object) string {
	if _, ok := v.(Event); ok {
		return "AG-UI event"
	}
	return "run input"
}

// AppendFrame appends the event as one frame of server-sent events: "data: ", the JSON, and
// an empty line. If the event cannot be written, or is longer than [MaxFrameBytes], beyond
// which a client ends the run, dst is returned unchanged.
func AppendFrame(dst []byte, e Event) ([]byte, error) {
	out, err := AppendJSON(append(dst, "data: "...), e)
	if err != nil {
		return dst, err
	}
	if out = append(out, '\n', '\n'); len(out)-len(dst) > MaxFrameBytes {
		return dst, message.Errorf(message.CodeTooLarge, "encode AG-UI event", "a %s has %d bytes, the limit of a frame is %d", TypeOf(e), len(out)-len(dst), MaxFrameBytes)
	}
	return out, nil
}

// MaxFrameBytes is the longest input or event that AG-UI's own client accepts.
const MaxFrameBytes = 10 << 20

// DeviationKind classifies what a tolerant reader ignores.
type DeviationKind string

// The kinds of deviations from AG-UI 1.0, and what the reader does about each.
const (
	DeviationMember  DeviationKind = "unknown_member"  // the member is dropped
	DeviationVariant DeviationKind = "unknown_variant" // the object is dropped if the rest does not need it
	DeviationNull    DeviationKind = "null"            // the member is treated as absent
	DeviationRetired DeviationKind = "retired"         // read as its successor
)

// Deviation is one point in which an input departs from AG-UI 1.0 but was still read.
type Deviation struct {
	Kind DeviationKind
	Path string // JSON pointer; "" is the whole input
	What string
}

// Decoder reads inputs and events like AG-UI's own client before its sequence checks. It
// accepts what the client accepts, repairs and reports what the client repairs, and refuses
// what would make a run fail there.
//
// The zero value is ready to use.
type Decoder struct {
	// Strict refuses what the schema of 1.0 refuses: nulls, and retired and unknown
	// variants. Unknown members are dropped either way, as the specification requires.
	Strict bool
	// OnDeviation, if set, is called with each deviation of an input that was read.
	OnDeviation func(Deviation)
}

// DecodeRunInput reads a run's input as a server must. It drops unknown members and treats
// the nulls of older clients as absent. Anything else that is wrong is an error, and the
// server should refuse the request with a 4xx status.
func DecodeRunInput(data []byte) (*RunInput, error) {
	in := new(RunInput)
	var d Decoder
	if err := d.Decode(data, in); err != nil {
		return nil, err
	}
	return in, nil
}

// Decode reads one JSON object into v. An event must have the type of v. Errors are
// *[message.Error]s whose cause names the position; after an error the contents of v are
// undefined.
func (d *Decoder) Decode(data []byte, v Object) error {
	r := wire.Reader{Format: &format, Lenient: !d.Strict, Noting: d.OnDeviation != nil}
	err := strictjson.Check(data, strictjson.MaxBytes(MaxFrameBytes))
	if err == nil {
		err = r.Read(data, v)
	}
	if err != nil {
		return message.DecodeError("decode "+describe(v), err)
	}
	for _, n := range r.Notes {
		d.OnDeviation(Deviation{DeviationKind(n.Kind), n.Path, n.What})
	}
	return nil
}

// checkPointer accepts a JSON pointer (RFC 6901).
func checkPointer(p string) (string, error) {
	wrong := p != "" && p[0] != '/'
	for i := 0; i < len(p); i++ {
		wrong = wrong || p[i] == '~' && (i+1 == len(p) || p[i+1] != '0' && p[i+1] != '1')
	}
	if wrong {
		return "", strictjson.Wrong(strictjson.ErrType, "%.60q is not a JSON pointer", p)
	}
	return p, nil
}

// verify checks conditions that involve several members.
func verify(v any, reading bool) error {
	at := func(name string, fault error, format string, args ...any) error {
		op := "encode"
		if reading {
			op = "decode"
		}
		return strictjson.Within(strictjson.Wrong(fault, format, args...), op, "/"+name, -1)
	}
	switch v := v.(type) {
	case *Message:
		needs := v.Role != RoleAssistant && v.Role != RoleActivity
		switch {
		case needs && v.Content == nil:
			return at("content", strictjson.ErrMissingMember, "%q", "content")
		case v.Content != nil && v.Content.Parts != nil && v.Role != RoleUser && v.Role != RoleTool:
			return at("content", strictjson.ErrType, "want string, got array")
		}
	case *Source:
		if v.Type == SourceData && v.MimeType == nil {
			return at("mimeType", strictjson.ErrMissingMember, "%q", "mimeType")
		}
	case *Outcome:
		if v.Type == OutcomeInterrupt && len(v.Interrupts) == 0 {
			return at("interrupts", strictjson.ErrType, "an interrupt needs at least one approval request")
		}
	}
	return nil
}

// readContent reads a string or a list of parts.
func readContent(r *wire.Reader, raw []byte, v reflect.Value) (err error) {
	c := v.Addr().Interface().(*Content)
	switch kind := strictjson.KindOf(raw); kind {
	case "string":
		c.Text, err = strictjson.Text(raw)
	case "array":
		err = r.Value(raw, reflect.ValueOf(&c.Parts).Elem())
		c.Parts = slices.DeleteFunc(c.Parts, func(p Part) bool { return p.legacy && isRepeated(p, c.Parts) })
	default:
		err = strictjson.Wrong(strictjson.ErrType, "want string or array, got %s", kind)
	}
	return err
}

func writeContent(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	c := v.Addr().Interface().(*Content)
	if c.Parts == nil {
		return strictjson.AppendString(dst, c.Text)
	}
	return f.AppendValue(dst, reflect.ValueOf(&c.Parts).Elem())
}

// readPart reads a part. A lenient reader also takes the retired binary part.
func readPart(r *wire.Reader, raw []byte, v reflect.Value) error {
	members, err := strictjson.Members(raw)
	if err != nil {
		return err
	}
	p := v.Addr().Interface().(*Part)
	if r.Lenient && p.readBinary(members) {
		r.Note(string(DeviationRetired), "a binary part, read as "+string(p.Type))
		return nil
	}
	for _, m := range members {
		if m.Name == "metadata" && string(m.Value) == "null" && strictjson.TextMember(members, "type") == string(PartText) {
			return strictjson.Within(strictjson.Wrong(strictjson.ErrType, "want anything but null"), "decode", "/metadata", int64(m.Offset))
		}
	}
	return r.Members(members, v)
}

// readBinary reads the retired binary part as the media part that replaced it. Without data
// or url it is treated as unknown.
func (p *Part) readBinary(in []strictjson.Member) bool {
	if strictjson.TextMember(in, "type") != string(partBinary) {
		return false
	}
	mime, name := strictjson.TextMember(in, "mimeType"), strictjson.TextMember(in, "filename")
	data, url := strictjson.TextMember(in, "data"), strictjson.TextMember(in, "url")
	if mime == "" || data == "" && url == "" {
		return false
	}
	p.Type, p.legacy = mediaPart(mime), true
	p.Source = &Source{Type: SourceData, Value: data, MimeType: &mime}
	if data == "" {
		p.Source.Type, p.Source.Value = SourceURL, url
	}
	if name != "" {
		quoted, _ := strictjson.AppendString([]byte(`{"filename":`), name)
		p.Metadata = append(quoted, '}')
	}
	return true
}

// mediaPart returns the kind of part that holds media of a MIME type.
func mediaPart(mime string) PartType {
	kind, _, _ := strings.Cut(mime, "/")
	switch kind {
	case "image", "audio", "video":
		return PartType(kind)
	}
	return PartDocument
}

// isRepeated reports whether a part that was read from a binary one also occurs in the
// current form: senders of that time wrote both.
func isRepeated(p Part, parts []Part) bool {
	return slices.ContainsFunc(parts, func(o Part) bool {
		return !o.legacy && o.Type == p.Type && o.Source != nil && o.Source.Type == p.Source.Type &&
			o.Source.Value == p.Source.Value && o.Source.MimeType != nil && *o.Source.MimeType == *p.Source.MimeType
	})
}

// Version is the protocol version that this package writes. A producer declares it on
// RUN_STARTED, to all peers.
const Version = "1.0"

// Peer says which AG-UI the other side understands.
type Peer uint8

// The kinds of peers. What the zero value gets, every peer understands.
const (
	PeerLegacy Peer = iota // declared no version: 0.0.x, which rejects unknown outcomes
	Peer10                 // 1.0 and newer minor versions
)

// PeerOf parses the protocolVersion of a run's input. As the specification demands, newer
// minor versions and anything that is not MAJOR.MINOR are served; other major versions are
// refused, as it allows.
func PeerOf(version *string) (Peer, error) {
	if version == nil {
		return PeerLegacy, nil
	}
	major, minor, ok := strings.Cut(*version, ".")
	if !ok || !digits(major) || !digits(minor) {
		return Peer10, nil
	}
	if n, err := strconv.Atoi(major); err != nil || n != 1 {
		return PeerLegacy, message.Errorf(message.CodeInvalid, "read protocolVersion", "version %.20q is not a version %s can serve", *version, Version)
	}
	return Peer10, nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Adapt returns the event in a form that the peer understands, and what is lost by that. For
// a 1.0 peer it is the event itself. A peer before 1.0 understands no cancelled outcome (it
// becomes a RUN_ERROR with the code cancelled), no pendingToolCallIds, no lists in tool
// results and tool messages (their text remains) and no file sources (the parts are left
// out). Adapt does not change e.
func (p Peer) Adapt(e Event) (Event, []Loss) {
	if p == Peer10 {
		return e, nil
	}
	switch e := e.(type) {
	case *RunFinished:
		return adaptFinished(e)
	case *ToolCallResult:
		if e.Content.Parts == nil {
			return e, nil
		}
		out := *e
		var lost []Loss
		out.Content, lost = textOnly(e.Content)
		return &out, lost
	case *MessagesSnapshot:
		messages, lost := adaptMessages(e.Messages)
		if messages == nil {
			return e, nil
		}
		out := *e
		out.Messages = messages
		return &out, lost
	case *RunStarted:
		if e.Input == nil {
			return e, nil
		}
		messages, lost := adaptMessages(e.Input.Messages)
		if messages == nil {
			return e, nil
		}
		out, in := *e, *e.Input
		in.Messages, out.Input = messages, &in
		return &out, lost
	default:
		return e, nil
	}
}

func adaptFinished(e *RunFinished) (Event, []Loss) {
	switch {
	case e.Outcome == nil:
		return e, nil
	case e.Outcome.Type == OutcomeCancelled:
		return &RunError{Base: e.Base, Message: "the run was cancelled", Code: new(CodeCancelled), Usage: e.Usage}, []Loss{LossCancelled}
	case e.Outcome.PendingToolCallIDs != nil:
		out := *e
		out.Outcome = &Outcome{Type: e.Outcome.Type}
		return &out, []Loss{LossPending}
	default:
		return e, nil
	}
}

// textOnly returns the text of a content, and the loss if there was more.
func textOnly(c Content) (Content, []Loss) {
	media := slices.ContainsFunc(c.Parts, func(p Part) bool { return p.Type != PartText })
	if !media {
		return Content{Text: c.String()}, nil
	}
	return Content{Text: c.String()}, []Loss{LossResultMedia}
}

// adaptMessages returns nil if nothing needs to change.
func adaptMessages(messages []Message) (out []Message, lost []Loss) {
	for i, m := range messages {
		if m.Content == nil || m.Content.Parts == nil {
			continue
		}
		var content Content
		var l []Loss
		if m.Role == RoleTool {
			content, l = textOnly(*m.Content)
		} else if content = withoutFiles(*m.Content); len(content.Parts) == len(m.Content.Parts) {
			continue
		} else {
			l = []Loss{LossResultMedia}
		}
		if out == nil {
			out = slices.Clone(messages)
		}
		out[i].Content = &content
		lost = append(lost, l...)
	}
	return out, lost
}

func withoutFiles(c Content) Content {
	return Content{Parts: slices.DeleteFunc(slices.Clone(c.Parts), func(p Part) bool {
		return p.Source != nil && p.Source.Type == SourceFile
	})}
}
