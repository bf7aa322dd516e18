package agui

import (
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/message"
)

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
