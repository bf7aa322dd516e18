package blockstream

import "github.com/askance-dev/askance/message"

// Delta is what a content_block_delta adds. Only text and thinking deltas name
// a type on the wire; the others are known by their members. The set is
// closed.
//
//sumtype:decl
type Delta interface{ isDelta() }

// TextDelta appends to a text block. Extras turn the block into a terminal one.
type TextDelta struct {
	Text   string
	Extras *Extras
}

// Subtype names a terminal block.
type Subtype string

// The terminal blocks: a client shows a text block with such extras as
// terminal_user_stopped or terminal_error.
const (
	SubtypeUserStopped Subtype = "user_stopped"
	SubtypeError       Subtype = "error"
)

// Extras mark a terminal block. The members after Subtype are written for
// errors only.
type Extras struct {
	Subtype   Subtype // block_subtype
	Code      string  // CodeLLM is the only one that is documented
	CanRetry  bool
	ErrorType string          // "terminal"
	Details   message.RawJSON // an object; nil is written as {}
}

// What extras of an error say.
const (
	CodeLLM       = "LLM_ERROR"
	ErrorTerminal = "terminal"
)

// ThinkingDelta appends to a thinking block.
type ThinkingDelta struct{ Thinking string }

// FileDelta says what became of the files. Its members have these names in no
// other delta: a client sets the file state of any block by them.
type FileDelta struct{ Status, Message string }

// ApprovalDelta carries the actions of an approval_request.
type ApprovalDelta struct {
	Actions        []Action // action_requests
	ReviewConfigs  []ReviewConfig
	TimeoutSeconds int64 // 0 is not written: no limit
}

// DecisionsDelta carries what was decided, in the order of the actions.
type DecisionsDelta struct{ Decisions []Decision }

func (*TextDelta) isDelta()      {}
func (*ThinkingDelta) isDelta()  {}
func (*FileDelta) isDelta()      {}
func (*ApprovalDelta) isDelta()  {}
func (*DecisionsDelta) isDelta() {}
