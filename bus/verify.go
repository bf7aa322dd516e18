package bus

import (
	"cmp"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// maxStoredBytes bounds what is decoded of a stored record.
const maxStoredBytes = 64 << 20

// stored is a message as the stream has it.
type stored struct {
	subject string
	seq     uint64
	time    time.Time
	header  nats.Header
	data    []byte
}

// errUnreadable: an engine with our keys wrote it, but not as this version
// writes. It is an event record all the same, and whatever is behind it is not the last.
var errUnreadable = errors.New("an engine of another version wrote it")

// errMisfit: it bears the mark of an engine with our keys, but is not what that
// engine wrote.
var errMisfit = errors.New("its MAC does not fit")

// unreadable reports whether r is an event record that this version cannot read.
func unreadable(r toolcall.JournalEntry) bool { return errors.Is(r.Invalid, errUnreadable) }

// record decodes a stored message. Whatever cannot be proved to be from an
// engine with our keys, or cannot be read, gets Invalid; its Key is then only
// where it stands, as far as that can be read.
func (j *Journal) record(m stored) toolcall.JournalEntry {
	r := toolcall.JournalEntry{Seq: m.seq, Time: m.time}
	s, err := ParseSubject(m.subject)
	if err != nil {
		r.Invalid = err
		return r
	}
	r.Key = placeOf(s)
	if s.Kind == KindEvent {
		j.event(&r, s, m)
		return r
	}
	f, err := j.eventRecord(s, m)
	if errors.Is(err, errUnreadable) {
		r.Invalid = &message.Error{Code: message.CodeUnavailable, Op: fmt.Sprintf("read record %d on %s", m.seq, m.subject), What: "this engine cannot read it", Hint: "use an engine of the version that wrote it; until then its call is left as it is", Err: err}
		return r
	}
	if err != nil {
		r.Invalid = &message.Error{Code: message.CodeInvalid, Op: fmt.Sprintf("verify record %d on %s", m.seq, m.subject), What: "it was not written by this space's engines", Hint: "find out who may publish there; it is ignored", Err: err}
		return r
	}
	r.Key, r.Record = f.Key(), f
	return r
}

// placeOf is the key that a subject names, without the ids that it only has
// as hashes.
func placeOf(s Subject) toolcall.Key {
	session, _ := s.Session.ID()
	reply, _ := s.Reply.ID()
	call, _ := s.Call.ID()
	lease, _ := s.Standing.ID()
	return toolcall.Key{Space: s.Space, Session: message.SessionID(session), Reply: message.ReplyID(reply), Call: message.CallID(call), Standing: toolcall.StandingID(lease)}
}

// event record verifies and decodes one record. Everything that a header or the subject
// says besides the body must agree with the body or be covered by the MAC.
func (j *Journal) eventRecord(s Subject, m stored) (*toolcall.EventRecord, error) {
	if !s.isRecord() {
		return nil, fmt.Errorf("the subject is none of an event record")
	}
	if err := j.checkMAC(s, m); err != nil {
		return nil, err
	}
	var f toolcall.EventRecord
	if err := strictjson.Unmarshal(m.data, &f, strictjson.MaxBytes(maxStoredBytes)); err != nil {
		return nil, errtext.Because(errUnreadable, cmp.Or(checkVersion(m.data), err))
	}
	switch {
	case f.V != toolcall.RecordVersion:
		return nil, errtext.Because(errUnreadable, checkVersion(m.data))
	case !s.names(f.Key(), f.WorkQueue()):
		return nil, fmt.Errorf("%w: its body belongs to %s", errUnreadable, errtext.Quote(f.Key().String()))
	case first(m.header, headerID) != f.ID:
		return nil, fmt.Errorf("its message id is not its event record id")
	case first(m.header, HeaderKind) != f.Kind():
		return nil, fmt.Errorf("its kind header is not its kind")
	}
	return &f, nil
}

// checkVersion says which version a record has, if it is not the one that this
// program reads and the record says so.
func checkVersion(body []byte) error {
	var f struct {
		V int `json:"v"`
	}
	if strictjson.UnmarshalOpen(body, &f, strictjson.MaxBytes(maxStoredBytes)) != nil || f.V == toolcall.RecordVersion {
		return nil
	}
	return fmt.Errorf("it has event record version %d, this program reads version %d", f.V, toolcall.RecordVersion)
}

func (j *Journal) checkMAC(s Subject, m stored) error {
	text := first(m.header, HeaderMAC)
	if text == "" {
		return fmt.Errorf("it has no MAC")
	}
	id, mac64, _ := strings.Cut(text, " ")
	if id != j.keys.ID() {
		return fmt.Errorf("its MAC is by the unknown key %s", errtext.Quote(id))
	}
	mac, err := strictBase64.DecodeString(mac64)
	if err != nil {
		return fmt.Errorf("its MAC is not base64url")
	}
	// Without these two headers the server did not check what it follows.
	prev, err := strconv.ParseUint(first(m.header, headerPrev), 10, 64)
	if err != nil || first(m.header, headerFilter) != string(s.entity()) {
		return fmt.Errorf("it was stored without the entity's compare-and-swap")
	}
	if prev >= m.seq {
		return fmt.Errorf("it claims to follow sequence %d", prev)
	}
	if want := j.keys.RecordMAC(m.subject, prev, m.data); !hmac.Equal(mac, want[:]) {
		return errMisfit
	}
	return nil
}

// event decodes a streamed event into r. Events have no MAC: only engines may
// publish them, and they change no call.
func (j *Journal) event(r *toolcall.JournalEntry, s Subject, m stored) {
	runtime, _ := s.Who.ID()
	session, ok1 := eventID(s.Session, first(m.header, headerSession))
	reply, ok2 := eventID(s.Reply, first(m.header, headerReply))
	if runtime == "" || !ok1 || !ok2 {
		r.Invalid = &message.Error{Code: message.CodeInvalid, Op: fmt.Sprintf("read event %d on %s", m.seq, m.subject), What: "its headers do not name the runtime, session and reply of its subject"}
		return
	}
	r.Key = toolcall.Key{Space: s.Space, Session: message.SessionID(session), Reply: message.ReplyID(reply)}
	r.Runtime = runtime
	if err := strictjson.Check(m.data, strictjson.MaxBytes(maxStoredBytes)); err != nil {
		r.Invalid = &message.Error{Code: message.CodeInvalid, Op: fmt.Sprintf("read event %d on %s", m.seq, m.subject), What: "it is not JSON", Err: err}
		return
	}
	r.Event = m.data
}

// eventID is the id of a token: as it stands, or from the header if the token
// is only its hash.
func eventID(t Token, header string) (string, bool) {
	if id, ok := t.ID(); ok {
		return id, true
	}
	b, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil || !t.Is(string(b)) {
		return "", false
	}
	return string(b), true
}

// first is the one value of a header; a header that is there twice has none.
func first(h nats.Header, name string) string {
	if v := h[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}
