package agui

import (
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// readBinary reads the retired binary part as the media part that took its
// place. One that has neither data nor url is of no known kind.
func (p *Part) readBinary(s *shape) bool {
	if strictjson.TextMember(s.members, "type") != string(partBinary) {
		return false
	}
	mime, name := strictjson.TextMember(s.members, "mimeType"), strictjson.TextMember(s.members, "filename")
	data, url := strictjson.TextMember(s.members, "data"), strictjson.TextMember(s.members, "url")
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
	s.log.note(DeviationRetired, s.path, "a binary part, read as "+string(p.Type))
	for i := range s.seen {
		s.seen[i] = true
	}
	return true
}

// mediaPart is the kind of part that holds media of a type.
func mediaPart(mime string) PartType {
	kind, _, _ := strings.Cut(mime, "/")
	switch kind {
	case "image", "audio", "video":
		return PartType(kind)
	}
	return PartDocument
}

// isRepeated reports whether a part that was read from a binary one also stands
// there in the present form: senders of that time wrote both.
func isRepeated(p Part, parts []Part) bool {
	for _, o := range parts {
		if !o.legacy && o.Type == p.Type && o.Source != nil && o.Source.Type == p.Source.Type &&
			o.Source.Value == p.Source.Value && o.Source.MimeType != nil && *o.Source.MimeType == *p.Source.MimeType {
			return true
		}
	}
	return false
}
