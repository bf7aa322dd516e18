package blockstream

import (
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// ErrUnshowable is wrapped when an approval request cannot be put into an
// approval_request, because the arguments are no JSON object: what the person
// would see is not what would run. The approval request stays open for others.
var ErrUnshowable = errors.New("the arguments cannot be shown")

// Config sets up a [Mapper]. Only Session is needed. The functions are called
// by the mapper's methods; they must give the same answer whenever they are
// asked about the same thing, or replays differ.
type Config struct {
	Space       toolcall.SpaceID // of the answers' keys
	Session     message.SessionID
	DisplayMode DisplayMode // "": agent
	// Location is the zone of times without one; nil: UTC.
	Location *time.Location
	// Label is what people read of a call; nil: the tool's name.
	Label func(tool, input string) string
	// OpenRequest tells what the event of an approval request does not say; nil:
	// nothing. It must be about the request with this very input, or be zero.
	OpenRequest func(key toolcall.Key, tool, input string) OpenRequest
	// DecidedBy names who decided about a call; nil: no name is shown.
	DecidedBy func(key toolcall.Key) string
	// Artifact is the artifact of a result; nil: [Output.Reference].
	Artifact func(o Output) message.RawJSON
	// Stopped and Failed are the texts of terminal blocks; "": English ones.
	Stopped, Failed string
	// OnSkip is told of everything that the stream has no place for.
	OnSkip func(e message.Event, why string)
}

// OpenRequest is what an engine knows about an open approval request.
type OpenRequest struct {
	Digest   string    // of the approval request; without it answers are refused
	Text     string    // for the person; "" is not shown
	Deadline time.Time // zero: none
}

// Output is what became of a call; the frame shows the first [MaxContent]
// characters of its text.
type Output struct {
	MessageID  message.ReplyID
	ToolUseID  message.CallID
	State      message.ToolResultState
	Characters int        // of the whole text
	Data       []DataPart // in order, at most maxParts
}

// DataPart is binary content in an output. URL is "" if the bytes came with it.
type DataPart struct {
	MediaType string `json:"media_type"`
	URL       string `json:"url" wire:"omit"`
}

// Mapper turns the events of one session into frames, and commands back into
// answers. It is a fold: the same events give the same frames. It knows one
// turn at a time, and every frame sequence it gives keeps the order that the
// package documentation promises. Each subscriber has one of its own, because what they have
// seen differs. It is not safe for concurrent use.
type Mapper struct {
	turnWriter
	requests requestList
	files    []File          // of the next turn
	hidden   map[string]bool // approvals that a catch-up leaves out
}

// NewMapper makes a mapper that has seen nothing.
func NewMapper(cfg Config) (*Mapper, error) {
	if cfg.DisplayMode == "" {
		cfg.DisplayMode = ModeAgent
	}
	if !cfg.DisplayMode.Valid() || cfg.Session == "" {
		return nil, message.Errorf(message.CodeInvalid, "make block stream", "session %.60q, display mode %.60q", string(cfg.Session), string(cfg.DisplayMode))
	}
	if cfg.Location == nil {
		cfg.Location = time.UTC
	}
	if cfg.Stopped == "" {
		cfg.Stopped = "The conversation was stopped. Send a message to go on."
	}
	if cfg.Failed == "" {
		cfg.Failed = "Something went wrong. Please try again."
	}
	return &Mapper{turnWriter: turnWriter{cfg: cfg}, requests: newRequestList()}, nil
}

// Attach announces the content_urls of a chat: the next turn begins with a
// file_processing block.
func (m *Mapper) Attach(urls []string) {
	for _, u := range urls {
		m.files = append(m.files, File{URL: u})
	}
}

// Event gives the frames of one event, in order; often there are none. With an
// error there are none either, and nothing has changed.
func (m *Mapper) Event(e message.Event) ([]Frame, error) {
	if e == nil {
		return nil, message.Errorf(message.CodeInvalid, "map event", "there is no event")
	}
	if s, ok := e.(*message.ReplyStart); ok && s.Session != m.cfg.Session {
		m.skip(e, "it belongs to another session")
		return nil, nil
	}
	if ask, ok := e.(*message.RequireUserConfirm); ok {
		if err := showable(ask); err != nil {
			return nil, err
		}
	}
	m.release(e)
	m.resolve(e)
	m.apply(e)
	return m.flush(), nil
}

// Catchup gives the frames for a subscriber who has seen no event, which
// must begin where a turn does: as Event for each, without the approvals that
// are resolved by the end, so that no card is shown that can no longer be answered. Events that cannot be shown are left out; see Config.OnSkip.
func (m *Mapper) Catchup(events []message.Event) []Frame {
	scout, quiet := *m, m.cfg
	quiet.OnSkip = nil
	scout.cfg, scout.requests = quiet, newRequestList()
	scout.turn, scout.out, scout.over = nil, nil, slices.Clone(m.over)
	for _, e := range events {
		_, _ = scout.Event(e) // what cannot be shown is told of below
	}
	m.hidden = map[string]bool{}
	for _, r := range scout.requests.asked {
		if !r.open {
			m.hidden[r.Key] = true
		}
	}
	var out []Frame
	for _, e := range events {
		frames, err := m.Event(e)
		if err != nil {
			m.skip(e, err.Error())
		}
		out = append(out, frames...)
	}
	m.hidden = nil
	return out
}

// Resend asks again what was asked in a turn that this stream no longer holds:
// for a subscriber who comes after the retention, or after a restart. An
// approval that is open here already is shown once more, too. It opens a turn if
// there is none.
func (m *Mapper) Resend(a Asked) []Frame {
	r := m.requests.find(a.Key)
	if r == nil {
		r = m.requests.remember(a)
	}
	if !r.open {
		return nil
	}
	if m.turn == nil {
		m.begin(a.MessageID, "") // shows what is open
	} else {
		m.show(r)
	}
	return m.flush()
}

// showable reports an approval request whose arguments are no JSON object.
func showable(e *message.RequireUserConfirm) error {
	for _, c := range e.ToolCalls {
		if !isObject(c.Input) {
			return message.Errorf(message.CodeInvalid, "map event", "%s %s: %w: call %.100q of tool %.100q", e.Type(), e.ID, ErrUnshowable, string(c.ID), c.Name)
		}
	}
	return nil
}

// maxInput and maxDepth bound arguments that are shown as such. A frame adds
// some levels of its own and has to stay readable.
const (
	maxInput = 256 << 10
	maxDepth = strictjson.DefaultMaxDepth - 8
)

func isObject(input string) bool {
	raw := []byte(input)
	return strictjson.KindOf(raw) == "object" && strictjson.Check(raw, strictjson.MaxBytes(maxInput), strictjson.MaxDepth(maxDepth)) == nil
}

// apply gives each event to the part that knows it.
func (m *Mapper) apply(e message.Event) {
	switch e := e.(type) {
	case *message.ReplyStart:
		m.enter(e)
	case *message.ReplyEnd:
		m.replyEnd(e)
	case *message.TextBlockStart, *message.TextBlockDelta, *message.TextBlockEnd:
		m.text(e)
	case *message.ThinkingBlockStart, *message.ThinkingBlockDelta, *message.ThinkingBlockEnd:
		m.thinking(e)
	case *message.ToolCallStart, *message.ToolCallDelta, *message.ToolCallEnd, *message.RequireExternalExecution:
		m.toolCall(e)
	case *message.ToolResultStart, *message.ToolResultTextDelta, *message.ToolResultDataDelta,
		*message.ToolResultEnd, *message.ExternalExecutionResult:
		m.toolResult(e)
	case *message.RequireUserConfirm:
		m.ask(e)
	case *message.UserConfirmResult, *message.ModelCallStart, *message.ModelCallEnd, *message.ExceedMaxIters, *message.UserInterrupt:
		// resolved before, or without a place and of no interest to people
	case *message.DataBlockStart, *message.DataBlockDelta, *message.DataBlockEnd,
		*message.HintBlockEvent, *message.Custom, *message.UnknownEvent:
		m.skip(e, "the stream has no place for "+string(e.Type()))
	}
}
