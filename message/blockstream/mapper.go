package blockstream

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// ErrUnshowable is wrapped if an approval request cannot be shown in an approval_request,
// because its arguments are not a JSON object: the person would not see what will run. The
// approval request stays open on other surfaces.
var ErrUnshowable = errors.New("the arguments cannot be shown")

// Config configures a [Mapper]. Only Session is required. The functions are called by the
// mapper's methods; they must always return the same result for the same input, or replays
// differ.
type Config struct {
	Space       toolcall.SpaceID // for the keys of responses
	Session     message.SessionID
	DisplayMode DisplayMode // "" means agent
	// Location is the zone of times without a zone; nil means UTC.
	Location *time.Location
	// OpenRequest returns what the event of an approval request lacks; nil means nothing. The
	// result must be about the request with exactly this input, or be zero.
	OpenRequest func(key toolcall.Key, tool, input string) OpenRequest
	// DecidedBy names who decided about a call; if nil, no name is shown.
	DecidedBy func(key toolcall.Key) string
	// Stopped and Failed are the texts of terminal blocks; "" means English defaults.
	Stopped, Failed string
	// OnSkip, if set, is called with everything that the stream cannot represent.
	OnSkip func(e message.Event, why string)
}

// OpenRequest is what an engine knows about an open approval request.
type OpenRequest struct {
	Digest   string    // of the approval request; without it responses are refused
	Text     string    // for the person; not shown if ""
	Deadline time.Time // zero if none
}

// DataPart is binary content in an output. URL is "" if the bytes were included.
type DataPart struct {
	MediaType string `json:"media_type"`
	URL       string `json:"url" wire:"omit"`
}

// Mapper turns the events of one session into frames, and commands into responses. The same
// events always give the same frames. It follows one turn at a time, and its frames keep the
// order that the package documentation promises. Each subscriber needs its own Mapper,
// because subscribers have seen different frames. It is not safe for concurrent use.
type Mapper struct {
	turnWriter
	requests requestList
	files    []File          // for the next turn
	hidden   map[string]bool // approvals that a catch-up leaves out
}

// NewMapper returns a mapper that has seen no events.
func NewMapper(cfg Config) (*Mapper, error) {
	cfg.DisplayMode = cmp.Or(cfg.DisplayMode, ModeAgent)
	if !cfg.DisplayMode.Valid() || cfg.Session == "" {
		return nil, message.Errorf(message.CodeInvalid, "make block stream", "session %.60q, display mode %.60q", string(cfg.Session), string(cfg.DisplayMode))
	}
	cfg.Location = cmp.Or(cfg.Location, time.UTC)
	cfg.Stopped = cmp.Or(cfg.Stopped, "The conversation was stopped. Send a message to continue.")
	cfg.Failed = cmp.Or(cfg.Failed, "Something went wrong. Please try again.")
	return &Mapper{turnWriter: turnWriter{cfg: cfg}, requests: newRequestList()}, nil
}

// Attach announces the content_urls of a chat: the next turn begins with a file_processing
// block.
func (m *Mapper) Attach(urls []string) {
	for _, u := range urls {
		m.files = append(m.files, File{URL: u})
	}
}

// Event returns the frames for one event, in order; often there are none. On an error there
// are none, and nothing has changed.
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

// Catchup returns the frames for a subscriber who has seen no event, not even those of a turn that
// is open here. The events must start where a turn does. The frames are those of Event, but
// without approvals that are resolved by the end, so no card is shown that can no longer be
// answered. Events that cannot be shown are left out; see Config.OnSkip.
func (m *Mapper) Catchup(events []message.Event) []Frame {
	unseen := m.turn
	m.turn = nil
	scout, quiet := *m, m.cfg
	quiet.OnSkip = nil
	scout.cfg, scout.requests = quiet, m.requests.clone()
	scout.out, scout.over = nil, slices.Clone(m.over)
	for _, e := range events {
		_, _ = scout.Event(e) // events that cannot be shown are reported below
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
		if unseen != nil && m.turn != nil {
			if m.turn.reply != unseen.reply {
				m.noteOver(unseen.reply)
			}
			unseen = nil
		}
		out = append(out, frames...)
	}
	m.hidden = nil
	return out
}

// Resend shows an approval request again that was asked in a turn which this stream no longer
// contains, for a subscriber who comes after the retention or after a restart. It also
// repeats an approval that is already open here. It opens a turn if there is none.
func (m *Mapper) Resend(a Asked) []Frame {
	r := m.requests.find(a.Key)
	if r == nil {
		r = m.requests.remember(a)
	}
	if !r.open {
		return nil
	}
	r.Asked = a // the same calls, perhaps with their text
	if m.turn == nil {
		m.begin(a.MessageID, "") // shows what is open
	} else {
		m.show(r)
	}
	return m.flush()
}

// showable returns an error for an approval request whose arguments are not a JSON object.
func showable(e *message.RequireUserConfirm) error {
	for _, c := range e.ToolCalls {
		if !isObject(c.Input) {
			return message.Errorf(message.CodeInvalid, "map event", "%s %s: %w: call %.100q of tool %.100q", e.Type(), e.ID, ErrUnshowable, string(c.ID), c.Name)
		}
	}
	return nil
}

// maxInput and maxDepth bound arguments that are shown as an object. A frame adds some levels
// and must remain readable.
const (
	maxInput = 256 << 10
	maxDepth = strictjson.DefaultMaxDepth - 8
)

func isObject(input string) bool {
	raw := []byte(input)
	return strictjson.KindOf(raw) == "object" && strictjson.Check(raw, strictjson.MaxBytes(maxInput), strictjson.MaxDepth(maxDepth)) == nil
}

// apply passes each event to the part that handles it.
func (m *Mapper) apply(e message.Event) {
	switch e := e.(type) {
	case *message.ReplyStart:
		m.enter(e)
	case *message.ReplyEnd:
		m.replyEnd(e)
	case *message.TextBlockStart:
		m.noteBlock(e, "text "+e.BlockID)
	case *message.TextBlockDelta:
		m.grow(e, "text "+e.BlockID, e.Delta, &Text{}, &TextDelta{Text: e.Delta})
	case *message.TextBlockEnd:
		m.endBlock("text " + e.BlockID)
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
		// already resolved, or not representable and of no interest to people
	case *message.DataBlockStart, *message.DataBlockDelta, *message.DataBlockEnd,
		*message.HintBlockEvent, *message.Custom, *message.UnknownEvent:
		m.skip(e, "the stream has no place for "+string(e.Type()))
	}
}
