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

// repeated reports whether a part that was read from a binary one also stands
// there in the present form: senders of that time wrote both.
func repeated(p Part, parts []Part) bool {
	for _, o := range parts {
		if !o.legacy && o.Type == p.Type && o.Source != nil && o.Source.Type == p.Source.Type &&
			o.Source.Value == p.Source.Value && o.Source.MimeType != nil && *o.Source.MimeType == *p.Source.MimeType {
			return true
		}
	}
	return false
}

// retired translates the THINKING events of the time before 1.0. They had no
// ids, so the decoder makes some, one for the span and one for the message.
func (d *Decoder) retired(kind EventType) (Event, bool) {
	var e Event
	switch kind {
	case "THINKING_START":
		d.span = d.newID()
		e = &ReasoningStart{MessageID: d.span}
	case "THINKING_END":
		e = &ReasoningEnd{MessageID: d.take(&d.span)}
	case "THINKING_TEXT_MESSAGE_START":
		d.thought = d.newID()
		e = &ReasoningMessageStart{MessageID: d.thought}
	case "THINKING_TEXT_MESSAGE_CONTENT":
		if d.thought == "" {
			d.thought = d.newID()
		}
		e = &ReasoningMessageContent{MessageID: d.thought}
	case "THINKING_TEXT_MESSAGE_END":
		e = &ReasoningMessageEnd{MessageID: d.take(&d.thought)}
	}
	return e, e != nil
}

// take returns the id and forgets it. Without one it makes one up, which then
// names something that nobody opened and does not verify.
func (d *Decoder) take(id *string) string {
	t := *id
	*id = ""
	if t == "" {
		t = d.newID()
	}
	return t
}

// retiredFields reads what a THINKING event shares with its successor.
func retiredFields(e Event, s *shape) {
	if c, ok := e.(*ReasoningMessageContent); ok {
		s.text("delta", &c.Delta)
	}
	if m, ok := s.find("title"); ok && e.Type() == TypeReasoningStart {
		s.log.note(DeviationRetired, s.path+"/title", "a title, which nothing can carry: "+string(m.Value))
	}
	if t, ok := e.(interface{ tagged(*shape) }); ok {
		t.tagged(s)
	}
}
