package v1

import (
	"math"
	"path"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// reserved is the member of a 2.0 message's metadata that records its dicts; own is our
// member of a dict's metadata.
const (
	reserved = "askance_v1"
	own      = "askance"
)

// part is what a message itself does not say about one of the dicts that it was made
// of.
type part struct {
	ID, Name, Timestamp string
	Role                message.MsgRole
	Blocks              int  // how many of the message's blocks
	Text                bool // the content was a string
	Shape               string
	Metadata            any // nil for the first dict, which has the message's metadata
	Invocation          bool
}

// The shapes of metadata that is not an object.
const (
	shapeNull  = "null"
	shapeValue = "value"
)

// partOf describes a dict.
func partOf(m *Msg, n int, first bool) part {
	p := part{ID: m.ID, Name: m.Name, Timestamp: m.Timestamp, Role: m.Role, Blocks: n, Text: !m.Content.IsList(), Invocation: m.InvocationID != ""}
	switch {
	case m.Metadata == nil:
		p.Shape = shapeNull
	case strictjson.KindOf(m.Metadata) != "object":
		p.Shape = shapeValue
	}
	if !first {
		p.Metadata = metadataOf(m)
	}
	return p
}

// metadataOf returns a dict's metadata as an object, without the request in it, which
// is about a past moment.
func metadataOf(m *Msg) map[string]any {
	if m.Metadata == nil {
		return map[string]any{}
	}
	raw := m.Metadata
	if strictjson.KindOf(raw) != "object" {
		raw, _ = asObject(raw) // it was checked when it was read
	}
	v, err := strictjson.Object(raw, strictjson.MaxBytes(math.MaxInt), strictjson.KeepBigIntegers())
	if err != nil {
		return map[string]any{} // it was checked when it was read
	}
	if o, ok := v[own].(map[string]any); ok {
		if _, decides := o["decisions"]; !decides {
			delete(o, "request_id")
			delete(o, "calls")
		}
		if len(o) == 0 {
			delete(v, own)
		}
	}
	return v
}

// partsValue returns the value in the metadata that records the parts.
func partsValue(parts []part) map[string]any {
	list := make([]any, len(parts))
	for i, p := range parts {
		v := map[string]any{"id": p.ID, "name": p.Name, "role": string(p.Role), "timestamp": p.Timestamp, "blocks": int64(p.Blocks)}
		if p.Text {
			v["text"] = true
		}
		if p.Shape != "" {
			v["metadata_is"] = p.Shape
		}
		if p.Invocation {
			v["invocation"] = true
		}
		if p.Metadata != nil {
			v["metadata"] = p.Metadata
		}
		list[i] = v
	}
	return map[string]any{"parts": list}
}

// partsOf reads what partsValue wrote; nil if it does not fit the message, which may
// have grown since. A part cannot claim another speaker: only parts with nothing but
// results may have another role than the message.
func partsOf(m *message.Msg) []part {
	top, _ := m.Metadata[reserved].(map[string]any)
	list, _ := top["parts"].([]any)
	var out []part
	at := 0
	for i, item := range list {
		v, _ := item.(map[string]any)
		p, ok := readPart(v, i == 0)
		end := at + p.Blocks
		if !ok || end > len(m.Content) || !isVoiceOf(m, p, m.Content[at:end]) || p.Text && !isText(m.Content[at:end]) {
			return nil
		}
		at = end
		out = append(out, p)
	}
	return out
}

func readPart(v map[string]any, first bool) (part, bool) {
	var p part
	role, okRole := v["role"].(string)
	id, okID := v["id"].(string)
	name, okName := v["name"].(string)
	timestamp, okTime := v["timestamp"].(string)
	n, okBlocks := v["blocks"].(int64)
	if !okRole || !okID || !okName || !okTime || !okBlocks || n < 0 || n > math.MaxInt32 {
		return p, false
	}
	p = part{ID: id, Name: name, Timestamp: timestamp, Role: message.MsgRole(role), Blocks: int(n)}
	p.Text, _ = v["text"].(bool)
	p.Shape, _ = v["metadata_is"].(string)
	p.Invocation, _ = v["invocation"].(bool)
	md, isObject := v["metadata"].(map[string]any)
	if isObject {
		p.Metadata = md
	}
	return p, first || isObject
}

// isVoiceOf reports whether the part may contain these blocks of the message.
func isVoiceOf(m *message.Msg, p part, blocks []message.Block) bool {
	if p.Role == m.Role {
		return p.Name == m.Name
	}
	onlyResults := !slices.ContainsFunc(blocks, func(b message.Block) bool { return b.Type() != message.BlockToolResult })
	return onlyResults && m.Role == message.RoleAssistant && p.Role.Valid() && len(blocks) > 0
}

func isText(blocks []message.Block) bool {
	return len(blocks) == 1 && blocks[0] != nil && blocks[0].Type() == message.BlockText
}

// types maps file name extensions that agents use to media types. The system's own
// table differs between machines, this one does not.
var types = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".svg": "image/svg+xml", ".bmp": "image/bmp", ".tif": "image/tiff", ".tiff": "image/tiff", ".heic": "image/heic", ".avif": "image/avif",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".flac": "audio/flac",
	".m4a": "audio/mp4", ".aac": "audio/aac", ".opus": "audio/opus", ".amr": "audio/amr",
	".mp4": "video/mp4", ".mpeg": "video/mpeg", ".mpg": "video/mpeg", ".mov": "video/quicktime", ".webm": "video/webm",
	".avi": "video/x-msvideo", ".mkv": "video/x-matroska",
	".pdf": "application/pdf", ".zip": "application/zip", ".gz": "application/gzip", ".tar": "application/x-tar",
	".json": "application/json", ".xml": "application/xml", ".txt": "text/plain", ".md": "text/markdown",
	".csv": "text/csv", ".html": "text/html", ".htm": "text/html",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
}

// guessMediaType returns the media type of what a URL in a block of that kind points to. The
// type always belongs to the kind, so kindOf gives the kind again; kind "" is any.
func guessMediaType(url string, kind BlockType) string {
	t := types[strings.ToLower(path.Ext(lastPart(url)))]
	switch {
	case kind == "" || kind == BlockFile && kindOf(t) == BlockFile:
		if t != "" {
			return t
		}
	case t != "" && kindOf(t) == kind:
		return t
	}
	if kind == "" || kind == BlockFile {
		return "application/octet-stream"
	}
	return string(kind) + "/*"
}

func kindOf(mediaType string) BlockType {
	kind, _, _ := strings.Cut(mediaType, "/")
	switch k := BlockType(strings.ToLower(kind)); k {
	case BlockImage, BlockAudio, BlockVideo:
		return k
	}
	return BlockFile
}

func lastPart(url string) string {
	url, _, _ = strings.Cut(url, "#")
	url, _, _ = strings.Cut(url, "?")
	return url[strings.LastIndexByte(url, '/')+1:]
}

// readDataURL reads a data: URL with base64.
func readDataURL(url string) (*message.Base64Source, bool) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return nil, false
	}
	head, data, ok := strings.Cut(rest, ",")
	mediaType, encoded := strings.CutSuffix(head, ";base64")
	if !ok || !encoded || mediaType == "" || strings.Contains(data, "%") {
		return nil, false
	}
	return &message.Base64Source{Data: data, MediaType: mediaType}, true
}
