package jsapi

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

const (
	// Heartbeat is how often the server confirms a waiting request.
	Heartbeat = 2 * time.Second
	// MaxSilence is when a waiting request counts as lost.
	MaxSilence = Heartbeat * 3 / 2
	// MaxDelay is the longest delay before a task is offered again.
	MaxDelay = time.Hour
	// MaxSubjectBytes bounds a subject that a client chooses and the engine publishes to:
	// the server closes a connection that sends a protocol line over 4096 bytes, and the
	// engine cannot go on without it.
	MaxSubjectBytes = 1024
)

// Pull asks the server for tasks of a consumer.
type Pull struct {
	Expires   int64 `json:"expires"` // nanoseconds, like the heartbeat
	Batch     int   `json:"batch"`
	NoWait    bool  `json:"no_wait,omitzero"`
	Heartbeat int64 `json:"idle_heartbeat,omitzero"`
}

// Pulling is one request for tasks and the subscription to its replies.
type Pulling struct {
	Inbox   string
	Replies chan *nats.Msg   // see StateOf
	Lost    chan nats.Status // the connection was lost

	nc  *nats.Conn
	sub *nats.Subscription
}

// Start sends the request to the subject of a consumer.
func (r Pull) Start(nc *nats.Conn, subject string) (*Pulling, error) {
	body, err := strictjson.Marshal(r)
	if err != nil {
		return nil, err
	}
	return StartPulling(nc, subject, body, r.Batch)
}

// StartPulling sends a request that some replies, and as many tasks, answer.
func StartPulling(nc *nats.Conn, subject string, body []byte, tasks int) (*Pulling, error) {
	p := &Pulling{nc: nc, Inbox: nc.NewInbox(), Replies: make(chan *nats.Msg, 64+tasks)}
	var err error
	if p.sub, err = nc.ChanSubscribe(p.Inbox, p.Replies); err != nil {
		return nil, err
	}
	p.Lost = nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	if err := nc.PublishRequest(subject, p.Inbox, body); err != nil {
		p.End(func(*nats.Msg) {})
		return nil, err
	}
	return p, nil
}

// End ends the request and passes late replies to release.
func (p *Pulling) End(release func(*nats.Msg)) {
	_ = p.sub.Unsubscribe() // fails only on a dead connection
	p.nc.RemoveStatusListener(p.Lost)
	for {
		select {
		case m := <-p.Replies:
			release(m)
		default:
			return
		}
	}
}

// CannotFetch is the error of a request for tasks that failed and can be repeated.
func CannotFetch(err error) error {
	return &message.Error{Code: message.CodeUnavailable, Op: "next", What: "cannot fetch a task now", Hint: "try again", Err: err}
}

// State is what the server's reply to a request for tasks means.
type State int

// The states.
const (
	StateRefused State = iota // anything but the others
	StateWaiting              // the server confirms the request
	StateNoTask               // no task arrived in time
	StateNoQueue              // there is no such consumer
	StateTask                 // the reply is a task
)

// StateOf classifies a reply of the server. Any reply with an acknowledgement subject
// is a task, with any headers.
func StateOf(m *nats.Msg) State {
	if strings.HasPrefix(m.Reply, ackPrefix) {
		return StateTask
	}
	switch OnlyHeader(m.Header, "Status") {
	case "100":
		return StateWaiting
	case "404", "408":
		return StateNoTask
	case "503":
		return StateNoQueue
	}
	return StateRefused
}

// What is published to a task's acknowledgement subject.
const (
	AckBody  = "+ACK"  // removes it from the queue
	TermBody = "+TERM" // removes it: it is not a task
)

// NakBody is what returns a task to the queue, which delivers it again after the delay.
func NakBody(delay time.Duration) []byte {
	return fmt.Appendf(nil, `-NAK {"delay": %d}`, max(0, delay.Nanoseconds()))
}

// ackPrefix begins the acknowledgement subjects of JetStream, which name tasks.
const ackPrefix = "$JS.ACK."

// IsTask reports whether text is the acknowledgement subject of a task of the
// consumer: $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer
// seq>.<time>.<pending>, or with domain and account before the stream and a random
// token at the end.
func IsTask(text, stream, consumer string) bool {
	if len(text) > MaxSubjectBytes {
		return false
	}
	rest, ok := strings.CutPrefix(text, ackPrefix)
	parts := strings.Split(rest, ".")
	at := 0
	if len(parts) >= 9 {
		at = 2
	}
	if !ok || len(parts) < at+7 || len(parts) > at+8 || parts[at] != stream || parts[at+1] != consumer {
		return false
	}
	for i, p := range parts {
		if p == "" || strings.ContainsAny(p, "*> \t\r\n") {
			return false
		}
		if _, err := strconv.ParseUint(p, 10, 64); err != nil && i >= at+2 && i < at+7 {
			return false
		}
	}
	return true
}

// Deliveries reads from a task's acknowledgement subject how often it was delivered.
func Deliveries(task string) int { return max(1, int(numberAt(task, 0))) }

// SequenceOf returns the sequence of a task's event record, or 0 if the subject has none.
func SequenceOf(task string) uint64 { return numberAt(task, 1) }

// TimeOf returns when a task's event record was stored.
func TimeOf(task string) time.Time { return time.Unix(0, int64(numberAt(task, 3))) }

// numberAt returns the number at a place after the consumer's name.
func numberAt(task string, place int) uint64 {
	parts := strings.Split(task, ".")
	at := 4
	if len(parts) >= 11 {
		at = 6
	}
	if len(parts) <= at+place {
		return 0
	}
	n, err := strconv.ParseUint(parts[at+place], 10, 31+32*(place&1))
	if err != nil {
		return 0
	}
	return n
}
