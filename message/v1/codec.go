package v1

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/wire"
	"github.com/google/uuid"
)

// Reasons why this package does not read a dict. Each is wrapped in a [*message.Error].
var (
	ErrIs20 = errors.New("this is a message of AgentScope 2.0: read it with package message")
	ErrIs00 = errors.New("this is a message of AgentScope 0.0.x, which is not supported")
)

// DefaultMaxBytes bounds a dict, and a list of dicts.
const DefaultMaxBytes = strictjson.DefaultMaxBytes

// maxDepth leaves room for the levels that a conversion adds around values.
const maxDepth = strictjson.DefaultMaxDepth - 8

// Codec reads, writes and converts dicts. The zero value is ready to use and writes V1.
// It has no state, and is safe for concurrent use if its functions are.
type Codec struct {
	// Dialect is the dialect to write.
	Dialect Dialect
	// MaxBytes bounds what is decoded; 0 means DefaultMaxBytes.
	MaxBytes int
	// Now is the clock for timestamps that V1 dicts leave out; nil means time.Now.
	Now func() time.Time
	// NewID makes the ids that V1 dicts leave out; nil means random ids.
	NewID func() string
	// Location is the time zone of timestamps, which contain none. If it is nil, the
	// zone is unknown, and the times of messages have none either.
	Location *time.Location
	// Digest returns the digest of the open approval request about a call, for the requests
	// that FromMsgs writes. If it is nil, no digest is written, and no decision will match.
	Digest func(reply message.ReplyID, call message.CallID) string
	// OnLoss is called for everything that the other side has no place for.
	OnLoss func(Loss)
}

// Loss is something that a conversion or a dialect cannot keep.
type Loss struct {
	Row  int    // in the table of the package documentation
	ID   string // of the message that contained it
	What string // for people
}

func (c Codec) reportLoss(row int, id, what string) {
	if c.OnLoss != nil {
		c.OnLoss(Loss{row, id, what})
	}
}

// DecodeMsgs decodes a list of dicts, a conversation.
func (c Codec) DecodeMsgs(data []byte) ([]*Msg, error) {
	return decode(c, "decode 1.x messages", data, maxDepth+1, func(data []byte) ([]*Msg, error) {
		list := []*Msg{}
		items, err := strictjson.Items(data)
		for i := 0; i < len(items) && err == nil; i++ {
			var m *Msg
			if m, err = c.msg(items[i].Value); err != nil {
				err = strictjson.Within(err, "decode", "/"+strconv.Itoa(i), int64(items[i].Offset))
			}
			list = append(list, m)
		}
		return list, err
	})
}

func decode[T any](c Codec, op string, data []byte, depth int, read func([]byte) (T, error)) (T, error) {
	var none T
	err := strictjson.Check(data, strictjson.MaxBytes(cmp.Or(max(c.MaxBytes, 0), DefaultMaxBytes)), strictjson.MaxDepth(depth))
	if err == nil {
		var v T
		if v, err = read(data); err == nil {
			return v, nil
		}
	}
	return none, message.DecodeError(op, err)
}

// detect determines the dialect by members that only one generation has.
func detect(members []strictjson.Member) (Dialect, error) {
	switch {
	case has(members, "__module__"):
		return V01, nil
	case has(members, "__type"):
		return V1, wrongAge(ErrIs00)
	case has(members, "created_at"), has(members, "finished_at"):
		return V1, wrongAge(ErrIs20)
	}
	for _, m := range members {
		if m.Name != "content" || strictjson.KindOf(m.Value) != "array" {
			continue
		}
		blocks, err := strictjson.Items(m.Value)
		if err != nil {
			return V1, err
		}
		for _, b := range blocks {
			inner, _ := strictjson.Members(b.Value) // other values are refused when they are read
			switch strictjson.TextMember(inner, wire.TypeMember) {
			case "tool_call", "data", "hint":
				return V1, wrongAge(ErrIs20)
			}
		}
	}
	return V1, nil
}

// has reports whether a member is present, even if it is null.
func has(members []strictjson.Member, name string) bool {
	return slices.ContainsFunc(members, func(m strictjson.Member) bool { return m.Name == name })
}

func wrongAge(err error) error { return &strictjson.Error{Op: "decode", Offset: -1, Err: err} }

// The rows of the table in doc.go that are reported to Codec.OnLoss.
const (
	rowOnlyV1    = 1
	rowFile      = 2
	rowOutput    = 3
	rowMediaType = 4
	rowURL       = 5
	rowExtra     = 6
	rowUnknown   = 7
	rowRawInput  = 8
	rowResults   = 9
	rowSystem    = 10
	rowReserved  = 11
	rowMsgFields = 20
	rowBlock     = 21
	rowResult    = 23
	rowRunning   = 24
	rowHint      = 25
	rowData      = 26
	rowInput     = 27
)

// RowCallState is the row for what FromMsgs puts into metadata.askance.
const RowCallState = 22

// AppendMsg appends a dict in the codec's dialect. DecodeMsgs can read what it writes.
// It reports to OnLoss what the dialect has no place for.
func (c Codec) AppendMsg(dst []byte, m *Msg) ([]byte, error) {
	out, err := c.appendMsg(dst, m)
	if err != nil {
		return dst, message.Errorf(message.CodeInvalid, "encode "+c.Dialect.String()+" message", "%w", err)
	}
	return out, nil
}

func (c Codec) appendMsg(dst []byte, m *Msg) ([]byte, error) {
	if m == nil {
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "there is no message")
	}
	content := Content{Text: m.Content.Text, Blocks: c.inDialect(m, m.Content.Blocks)}
	at := c.timestamp(m.Timestamp)
	var out []byte
	var err error
	if c.Dialect == V01 {
		out, err = format.Append(dst, &dict01{
			Module: "agentscope.message.msg", Class: "Msg", ID: m.ID, Name: m.Name, Role: m.Role,
			Content: content01(content), Metadata: m.Metadata, Timestamp: at,
		})
	} else {
		d := &dict1{ID: &m.ID, Name: m.Name, Role: m.Role, Content: content, Metadata: m.Metadata, Timestamp: &at}
		if m.Metadata != nil && strictjson.KindOf(m.Metadata) != "object" {
			d.Metadata, err = asObject(m.Metadata)
		}
		if err == nil {
			out, err = format.Append(dst, d)
		}
	}
	if err == nil { // a more deeply nested dict could not be read
		err = strictjson.Check(out[len(dst):], strictjson.MaxBytes(len(out)), strictjson.MaxDepth(maxDepth))
	}
	return out, err
}

// asObject wraps metadata that is not an object in one.
func asObject(raw message.RawJSON) (message.RawJSON, error) {
	return format.Append(nil, &struct {
		Value message.RawJSON `json:"value" wire:"any"`
	}{raw})
}

// inDialect returns the blocks as the dialect has them; nil if list is nil.
func (c Codec) inDialect(m *Msg, list []Block) []Block {
	if list == nil {
		return nil
	}
	out := []Block{}
	for _, b := range list {
		if c.Dialect == V01 {
			b = c.to01(m, b)
		} else {
			b = c.to1(m, b)
		}
		if b != nil {
			out = append(out, b)
		}
	}
	return out
}

// to1 returns 1.x's block for b.
func (c Codec) to1(m *Msg, b Block) Block {
	if r, ok := b.(*ToolResultBlock); ok {
		out := *r
		out.Output.Blocks = c.inDialect(m, r.Output.Blocks)
		if r.Output.Raw != nil {
			c.reportLoss(rowOutput, m.ID, "that an output was JSON and no text")
			out.Output = Output{Text: string(r.Output.Raw)}
		}
		return &out
	}
	media, ok := b.(*MediaBlock)
	if !ok || media.Kind != BlockFile {
		return b
	}
	if media.URL == "" {
		c.reportLoss(rowFile, m.ID, "a file of type "+media.MediaType)
		return &TextBlock{Text: "[file of type " + media.MediaType + "]"}
	}
	c.reportLoss(rowFile, m.ID, "that "+media.URL+" is a file and no text")
	return &TextBlock{Text: media.URL}
}

// to01 returns 0.1.x's block for b, or nil if there is none.
func (c Codec) to01(m *Msg, b Block) Block {
	switch b := b.(type) {
	case *TextBlock:
		c.loseExtra(rowOnlyV1, m, b.Extra)
		return &TextBlock{Text: b.Text}
	case *ThinkingBlock:
		c.reportLoss(rowOnlyV1, m.ID, "a thinking block")
		return nil
	case *MediaBlock:
		c.loseExtra(rowOnlyV1, m, b.Extra)
		d := *b
		d.Extra, d.flat = nil, true
		if d.URL == "" && b.MediaType != "" {
			d.URL = "data:" + b.MediaType + ";base64," + b.Data
		}
		return &d
	case *ToolUseBlock:
		c.loseExtra(rowOnlyV1, m, b.Extra)
		if b.RawInput != nil {
			c.reportLoss(rowOnlyV1, m.ID, "raw_input of "+string(b.ID))
		}
		return &ToolUseBlock{ID: b.ID, Name: b.Name, Input: b.Input}
	case *ToolResultBlock:
		c.loseExtra(rowOnlyV1, m, b.Extra)
		out := ToolResultBlock{ID: b.ID, Name: b.Name, Output: b.Output}
		out.Output.Blocks = c.inDialect(m, b.Output.Blocks)
		return &out
	case *UnknownBlock:
		c.reportLoss(rowOnlyV1, m.ID, "a block of type "+string(b.Kind))
		return nil
	}
	return nil
}

func (c Codec) loseExtra(row int, m *Msg, extra []message.Member) {
	for _, x := range extra {
		c.reportLoss(row, m.ID, "the member "+x.Name+" of a block")
	}
}

// alphabet is the alphabet of shortuuid, which makes the ids of 1.x.
const alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// idLen1 is the length of an id of 1.x.
const idLen1 = 22

// newID returns an id for a dict that has none.
func (c Codec) newID() string {
	if c.NewID != nil {
		return c.NewID()
	}
	id := uuid.New()
	return short(id[:])
}

// short encodes 16 bytes as shortuuid does.
func short(b []byte) string {
	n, base, digit := new(big.Int).SetBytes(b), big.NewInt(int64(len(alphabet))), new(big.Int)
	out := []byte(strings.Repeat(alphabet[:1], idLen1))
	for i := idLen1 - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = alphabet[digit.Int64()]
	}
	return string(out)
}

// hash returns 16 bytes derived from a message's id and the place of something in it,
// so that everyone who converts the same messages gets the same ids.
func hash(what, id string, n int) []byte {
	h := sha256.New()
	for _, s := range []string{"askance-v1-" + what, id, strconv.Itoa(n)} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(s)))
		h.Write(size[:])
		h.Write([]byte(s))
	}
	return h.Sum(nil)[:16]
}

// partID returns the id of the n-th dict of a message; the first dict has the id of the
// message.
func (c Codec) partID(id string, n int) string {
	switch {
	case n == 0:
		return id
	case c.Dialect == V01:
		return hex.EncodeToString(hash("part", id, n))
	default:
		return short(hash("part", id, n))
	}
}

// blockID returns the id of a block, because blocks have no ids in dicts.
func blockID(id string, n int) string { return hex.EncodeToString(hash("block", id, n)) }

// The layouts of times. layoutISO is AgentScope 2.0's; see message.Timestamp.
const (
	layout01  = "2006-01-02 15:04:05"
	layout1   = "2006-01-02 15:04:05.000"
	layoutISO = "2006-01-02T15:04:05"
)

// iso converts a timestamp to AgentScope 2.0's form. Text that is not a timestamp is
// unchanged: times are opaque text on both sides.
func (c Codec) iso(at string) string {
	t, err := time.ParseInLocation(layout01, at, cmp.Or(c.Location, time.UTC)) // also accepts a fraction
	switch {
	case err != nil:
		return at
	case c.Location == nil:
		return strings.Replace(at, " ", "T", 1)
	default:
		return t.Format(time.RFC3339Nano)
	}
}

// timestamp converts a time of either side to the dialect's timestamp.
func (c Codec) timestamp(at string) string {
	for _, layout := range []string{layoutISO, time.RFC3339Nano, layout01} {
		t, err := time.Parse(layout, at)
		if err != nil {
			continue
		}
		if layout == time.RFC3339Nano && c.Location != nil {
			t = t.In(c.Location)
		}
		if c.Dialect == V01 {
			return t.Format(layout01)
		}
		return t.Format(layout1)
	}
	return at
}
