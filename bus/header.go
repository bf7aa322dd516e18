package bus

import (
	"encoding/base64"
	"strconv"
	"sync"

	"github.com/askance-dev/askance/bus/keyfile"

	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// The headers of a stored message. Those of NATS make the server check; ours
// make the reader check.
const (
	HeaderKind = "Askance-Kind" // an event record's kind, so that a reader may filter without decoding
	HeaderMAC  = "Askance-MAC"  // "<key id> <base64url HMAC-SHA256>" of an event record
	// HeaderShown says what auditors may be shown: "whole", or the SHA-256 of the
	// redacted body.
	HeaderShown = proof.HeaderShown

	headerID     = "Nats-Msg-Id"                                 // the event record's id
	headerPrev   = "Nats-Expected-Last-Subject-Sequence"         // last sequence of the entity
	headerFilter = "Nats-Expected-Last-Subject-Sequence-Subject" // the entity's filter

	// True ids of an event whose subject has only hashes; base64url.
	headerSession = "Askance-Session"
	headerReply   = "Askance-Reply"
)

// recordMsg is a message with the headers of a record. It is used again and again:
// its six header values are set in place.
type recordMsg struct {
	nats.Msg
	kind, mac, id, prev, filter, shown []string
	macText                            []byte
}

var recordMsgs = sync.Pool{New: func() any {
	v := make([]string, 6)
	m := &recordMsg{kind: v[0:1:1], mac: v[1:2:2], id: v[2:3:3], prev: v[3:4:4], filter: v[4:5:5], shown: v[5:6:6]}
	m.Header = nats.Header{HeaderKind: m.kind, HeaderMAC: m.mac, headerID: m.id, headerPrev: m.prev, headerFilter: m.filter, HeaderShown: m.shown}
	return m
}}

// fill makes m the message that stores f, encoded as body.
func (m *recordMsg) fill(f *toolcall.EventRecord, subject string, entity Entity, body []byte) {
	m.Subject, m.Data = subject, body
	m.kind[0], m.id[0], m.filter[0] = f.Kind(), f.ID, string(entity)
	m.shown[0] = proof.ShownWhole
	if f.Call != nil && f.Call.Hides() {
		m.shown[0] = proof.MarkOf(proof.Shown(body, true))
	}
}

// follow sets which sequence the event record follows, and the MAC over that.
func (m *recordMsg) follow(keys *keyfile.Keys, prev uint64) {
	sum := keys.RecordMAC(m.Subject, prev, m.Data)
	m.macText = append(append(m.macText[:0], keys.ID()...), ' ')
	m.macText = base64.RawURLEncoding.AppendEncode(m.macText, sum[:])
	m.mac[0] = string(m.macText)
	m.prev[0] = strconv.FormatUint(prev, 10)
}

func (m *recordMsg) free() {
	m.Subject, m.Data = "", nil
	recordMsgs.Put(m)
}
