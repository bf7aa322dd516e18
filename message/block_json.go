package message

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/wire"
)

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
	if hasMember(members, wire.TypeMember) {
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
	switch data, url := hasMember(members, "data"), hasMember(members, "url"); {
	case data && !url:
		return string(SourceBase64), nil
	case url && !data:
		return string(SourceURL), nil
	default:
		return "", strictjson.Wrong(strictjson.ErrMissingMember, "%q, and exactly one of data and url", wire.TypeMember)
	}
}

func hasMember(members []strictjson.Member, name string) bool {
	return slices.ContainsFunc(members, func(m strictjson.Member) bool { return m.Name == name })
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
