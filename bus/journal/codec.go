package journal

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

type stored struct {
	subject string
	seq     uint64
	time    time.Time
	header  nats.Header
	data    []byte
}

// errUnreadable: an engine of another version wrote this genuine event record.
var errUnreadable = errors.New("an engine of another version wrote it")

// errMisfit: the record names our key, but its MAC is wrong.
var errMisfit = errors.New("its MAC is wrong")

func isUnreadable(r toolcall.JournalEntry) bool { return errors.Is(r.Invalid, errUnreadable) }

// codec decodes the messages of a space's journal and verifies who wrote them.
type codec struct {
	space toolcall.SpaceID
	keys  *keyfile.Keys
	bases *bases
}

// decode decodes a stored message. If no engine with our keys wrote it, or if it is
// unreadable, Invalid says why and Key is only what its subject says.
func (c codec) decode(ctx context.Context, m stored) toolcall.JournalEntry {
	r := toolcall.JournalEntry{Seq: m.seq, Time: m.time}
	s, err := bus.ParseSubject(m.subject)
	if err != nil {
		r.Invalid = err
		return r
	}
	r.Key = placeOf(s)
	if s.Kind == bus.KindEvent {
		c.decodeEvent(&r, s, m)
		return r
	}
	rec, below, err := c.decodeEventRecord(ctx, s, m)
	switch {
	case err == nil:
		c.rememberBase(m, rec, below)
		r.Key, r.Record = rec.Key(), rec
	case errors.Is(err, errBaseUnread):
		r.Invalid = &message.Error{Code: message.CodeUnavailable, Op: fmt.Sprintf("read record %d on %s", m.seq, m.subject), What: "the record on which it builds could not be read", Hint: "check that NATS runs with JetStream, and try again", Err: err}
	case errors.Is(err, errUnreadable):
		r.Invalid = &message.Error{Code: message.CodeUnavailable, Op: fmt.Sprintf("read record %d on %s", m.seq, m.subject), What: "this engine cannot read the record", Hint: "use an engine of the version that wrote it; until then its call stays unchanged", Err: err}
	default:
		r.Invalid = &message.Error{Code: message.CodeInvalid, Op: fmt.Sprintf("verify record %d on %s", m.seq, m.subject), What: "no engine of this space wrote it", Hint: "the record is ignored; find out who can publish on this subject", Err: err}
	}
	return r
}

// placeOf returns the key in a subject, without the ids that are only hashes there.
func placeOf(s bus.Subject) toolcall.Key {
	session, _ := s.Session.ID()
	reply, _ := s.Reply.ID()
	call, _ := s.Call.ID()
	name, _ := s.Name.ID()
	return toolcall.Key{Space: s.Space, Session: message.SessionID(session), Reply: message.ReplyID(reply), Call: message.CallID(call), Entity: toolcall.EntityName(name)}
}

// decodeEventRecord verifies and decodes an event record. Every header and the subject
// must agree with the body or be covered by the MAC.
func (c codec) decodeEventRecord(ctx context.Context, s bus.Subject, m stored) (rec *toolcall.EventRecord, below *toolcall.RecordBase, err error) {
	if !s.IsRecord() {
		return nil, nil, errors.New("its subject is not that of an event record")
	}
	if err := c.checkMAC(s, m); err != nil {
		return nil, nil, err
	}
	return c.decodeGenuine(ctx, s, m)
}

// decodeGenuine is decodeEventRecord for a message whose MAC was checked.
func (c codec) decodeGenuine(ctx context.Context, s bus.Subject, m stored) (rec *toolcall.EventRecord, below *toolcall.RecordBase, err error) {
	if rec, below, err = c.expand(ctx, s.Entity(), m, 0); err != nil {
		return nil, nil, err
	}
	if err := checkID(m, rec.ID); err != nil {
		return nil, nil, err
	}
	switch {
	case !s.BelongsTo(rec.Key(), rec.WorkQueue()):
		return nil, nil, fmt.Errorf("%w: its body belongs to %s", errUnreadable, errtext.Quote(rec.Key().String()))
	case len(m.header[HeaderKind]) > 0 && jsapi.OnlyHeader(m.header, HeaderKind) != rec.Kind():
		return nil, nil, errors.New("its kind header differs from its kind")
	}
	return rec, below, nil
}

func checkID(m stored, id string) error {
	if jsapi.OnlyHeader(m.header, headerID) != id {
		return errors.New("its message id differs from its event record id")
	}
	return nil
}

// strictBase64 refuses stray bits in the last character, which would be a second
// spelling of the same MAC.
var strictBase64 = base64.RawURLEncoding.Strict()

// checkMAC checks that an engine wrote a record. A codec without keys leaves that to workers,
// which verify the grant.
func (c codec) checkMAC(s bus.Subject, m stored) error {
	if c.keys == nil {
		return nil
	}
	text := jsapi.OnlyHeader(m.header, HeaderMAC)
	if text == "" {
		return errors.New("it has no MAC")
	}
	id, mac64, _ := strings.Cut(text, " ")
	if id != c.keys.ID() {
		return fmt.Errorf("its MAC is from the unknown key %s", errtext.Quote(id))
	}
	mac, err := strictBase64.DecodeString(mac64)
	if err != nil {
		return errors.New("its MAC is not base64url")
	}
	// Without these two headers the server did not compare the record's predecessor.
	prev, err := strconv.ParseUint(jsapi.OnlyHeader(m.header, headerPrev), 10, 64)
	if err != nil || jsapi.OnlyHeader(m.header, headerFilter) != string(s.Entity()) {
		return errors.New("it was stored without the compare-and-swap of its entity")
	}
	if prev >= m.seq {
		return fmt.Errorf("it claims to follow the later sequence %d", prev)
	}
	if want := c.keys.RecordMAC(m.subject, prev, m.data); !hmac.Equal(mac, want[:]) {
		return errMisfit
	}
	return nil
}

// isGenuine reports whether an engine of this space wrote a record.
func (c codec) isGenuine(m stored) bool {
	s, err := bus.ParseSubject(m.subject)
	return err == nil && s.IsRecord() && c.checkMAC(s, m) == nil
}

// isForeign reports whether no engine of this space wrote a message. Streamed events have no MAC.
func (c codec) isForeign(m stored) bool {
	s, err := bus.ParseSubject(m.subject)
	return err != nil || s.Kind != bus.KindEvent && c.checkMAC(s, m) != nil
}

// decodeEvent decodes a streamed event into r. Events have no MAC: only engines can
// publish them, and they change no call.
func (c codec) decodeEvent(r *toolcall.JournalEntry, s bus.Subject, m stored) {
	runtime, _ := s.Who.ID()
	session, ok1 := eventID(s.Session, jsapi.OnlyHeader(m.header, headerSession))
	reply, ok2 := eventID(s.Reply, jsapi.OnlyHeader(m.header, headerReply))
	if runtime == "" || !ok1 || !ok2 {
		r.Invalid = &message.Error{Code: message.CodeInvalid, Op: fmt.Sprintf("read event %d on %s", m.seq, m.subject), What: "its headers do not name the runtime, session and reply of its subject"}
		return
	}
	r.Key = toolcall.Key{Space: s.Space, Session: message.SessionID(session), Reply: message.ReplyID(reply)}
	r.Runtime = runtime
	if err := strictjson.Check(m.data, strictjson.MaxBytes(jsapi.MaxMessageBytes)); err != nil {
		r.Invalid = &message.Error{Code: message.CodeInvalid, Op: fmt.Sprintf("read event %d on %s", m.seq, m.subject), What: "it is not JSON", Err: err}
		return
	}
	r.Event = m.data
}

// eventID returns the id in a token, or the one in the header if the token is a hash.
func eventID(t bus.Token, header string) (string, bool) {
	if id, ok := t.ID(); ok {
		return id, true
	}
	b, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil || !t.Is(string(b)) {
		return "", false
	}
	return string(b), true
}

// The headers of a stored message: NATS checks its own, readers check ours.
const (
	HeaderKind = "Askance-Kind" // of a checkpoint, or the kind of an event record of version 2
	HeaderMAC  = "Askance-MAC"  // "<key id> <base64url HMAC-SHA256>" of an event record
	// HeaderShown has the SHA-256 of the redacted body of a record with hidden values.
	// Events always have this header.
	HeaderShown = proof.HeaderShown

	headerID     = "Nats-Msg-Id"                                 // the event record's id
	headerPrev   = "Nats-Expected-Last-Subject-Sequence"         // last sequence of the entity
	headerFilter = "Nats-Expected-Last-Subject-Sequence-Subject" // the entity's filter

	// True ids of an event whose subject has only hashes; base64url.
	headerSession = "Askance-Session"
	headerReply   = "Askance-Reply"
)

// recordMsg is a reused message with the headers of an event record, whose values
// are set in place.
type recordMsg struct {
	nats.Msg
	mac, id, prev, filter, shown, kind []string
	macText                            []byte
}

var recordMsgs = sync.Pool{New: func() any {
	v := make([]string, 6)
	m := &recordMsg{mac: v[0:1:1], id: v[1:2:2], prev: v[2:3:3], filter: v[3:4:4], shown: v[4:5:5], kind: v[5:6:6]}
	m.Header = nats.Header{HeaderMAC: m.mac, headerID: m.id, headerPrev: m.prev, headerFilter: m.filter}
	return m
}}

func (m *recordMsg) fillRecord(rec *toolcall.EventRecord, subject string, entity bus.Entity, body []byte, base *toolcall.RecordBase) {
	m.Subject, m.Data = subject, body
	m.id[0], m.filter[0] = rec.ID, string(entity)
	delete(m.Header, HeaderShown)
	delete(m.Header, HeaderKind)
	if rec.Call == nil { // an engine of the previous release ignores a record without these, and writes over it
		m.kind[0] = rec.Kind()
		m.Header[HeaderKind] = m.kind
	}
	if rec.Call != nil && !rec.Call.Hides() {
		return
	}
	if shown, what := proof.Shown(body, true, base); rec.Call == nil || what != nil {
		m.shown[0] = proof.MarkOf(shown, what)
		m.Header[HeaderShown] = m.shown
	}
}

// setPredecessor sets the sequence that the event record follows, and the MAC over it.
func (m *recordMsg) setPredecessor(keys *keyfile.Keys, prev uint64) {
	sum := keys.RecordMAC(m.Subject, prev, m.Data)
	m.macText = append(append(m.macText[:0], keys.ID()...), ' ')
	m.macText = base64.RawURLEncoding.AppendEncode(m.macText, sum[:])
	m.mac[0] = string(m.macText)
	m.prev[0] = strconv.FormatUint(prev, 10)
}

func (m *recordMsg) returnToPool() {
	m.Subject, m.Data = "", nil
	recordMsgs.Put(m)
}
