package agui

import "github.com/askance-dev/askance/message"

// ContentType is the media type of a stream of events.
const ContentType = "text/event-stream"

// AppendFrame appends the event as one frame of server-sent events: "data: ",
// the JSON, and an empty line. dst comes back as it was if the event cannot be
// written, or if it is longer than [MaxFrameBytes], over which a client ends
// the run.
func AppendFrame(dst []byte, e Event) ([]byte, error) {
	out, err := AppendJSON(append(dst, "data: "...), e)
	if err != nil {
		return dst, err
	}
	if out = append(out, '\n', '\n'); len(out)-len(dst) > MaxFrameBytes {
		return dst, message.Errorf(message.CodeTooLarge, "encode AG-UI event", "a %s of %d bytes, the limit of a frame is %d", e.Type(), len(out)-len(dst), MaxFrameBytes)
	}
	return out, nil
}
