package proof

import (
	"bytes"
	"slices"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
)

// HeaderShown is the header in which an engine stores what may be shown of a record:
// ShownWhole, or the SHA-256 of the redacted body. The record's hash covers it, so a
// record can be redacted in this one way only, and each shown byte is proved. Compact
// records without it are ShownWhole.
const HeaderShown = "Askance-Shown"

// ShownWhole means that the whole record may be shown.
const ShownWhole = "whole"

// streamedArguments is in every event with a part of a call's arguments. Parts cannot
// be redacted separately; the event records have the whole arguments.
var streamedArguments = []byte(`TOOL_CALL_DELTA`)

// Shown returns the body that may be shown of a record, or nil, and what was removed from
// it. Nothing is shown of an event record that cannot be decoded. base is the record on
// which it builds, or nil: both are redacted, so what is shown of the record builds on what
// is shown of its base.
//
// Invariant: the result for a stored body never changes, because journals contain its hash. Where
// it must, to hide more, an export leaves the whole record out.
func Shown(body []byte, record bool, base *toolcall.RecordBase) (shown []byte, what []string) {
	if !record {
		if bytes.Contains(body, streamedArguments) {
			return []byte(redactedDelta), []string{"delta"}
		}
		return body, nil
	}
	whole := func() ([]byte, []string) { return []byte(RedactedWhole), []string{"*"} }
	s, err := toolcall.DecodeStored(body)
	if err == nil && s.IsCompact() && !s.Hides() { // of these, DecodeStored does not check every part
		err = strictjson.Check(body, strictjson.MaxBytes(maxRecord))
	}
	if err != nil {
		return whole()
	}
	if !s.Hides() {
		return body, nil
	}
	rec, err := s.Expand(base)
	if err != nil {
		return whole()
	}
	if s.BaseSeq() == 0 {
		base = nil
	}
	if s.IsCompact() {
		shown, err = toolcall.EncodeStored(rec.Redacted(), base.Redacted())
	} else {
		shown, err = strictjson.Marshal(rec.Redacted())
	}
	switch {
	case err != nil:
		return whole()
	case bytes.Equal(shown, body):
		return body, nil
	}
	return shown, rec.Call.HiddenPaths()
}

// MarkOf returns the value of HeaderShown for a result of Shown.
func MarkOf(shown []byte, what []string) string {
	if what == nil {
		return ShownWhole
	}
	return BodyHash(shown).String()
}

// Redact removes what rules hide and sets the hash of the original body, which proves
// the record. Nothing is shown unless the engine that wrote it permitted exactly this
// result.
func (r *Record) Redact() {
	if r.Final || !r.BodyHash.IsZero() {
		return
	}
	body := r.Body()
	shown, what := Shown(body, r.Entity != "", r.Base)
	mark, marked := r.mark()
	switch {
	case what == nil:
		return
	case !marked && r.Entity == "": // nothing is left of it
	case mark == ShownWhole && what[0] == "*" && r.Header[HeaderShown] != nil: // a later engine hides nothing
		return
	case mark != MarkOf(shown, what):
		shown, what = []byte(RedactedWhole), []string{"*"}
	}
	hash := BodyHash(body)
	r.SetBody(shown)
	r.BodyHash, r.Redacted = hash, what
}

// mark returns what the engine permits to be shown. Without the header that is the whole
// record, or unknown if an earlier release wrote it; those named the kind of each record.
func (r *Record) mark() (string, bool) {
	values := r.Header[HeaderShown]
	switch {
	case len(values) == 1:
		return values[0], true
	case len(values) == 0 && r.Entity != "" && len(r.Header[kindHeader]) == 0:
		return ShownWhole, true
	}
	return "", len(values) > 0
}

// isWithheld reports whether none of the record is shown, although its engine
// permits it.
func (r *Record) isWithheld() bool {
	mark, marked := r.mark()
	return !r.BodyHash.IsZero() && marked && string(r.Body()) == RedactedWhole && mark != BodyHash(r.Body()).String()
}

// findUnproved returns what is shown of a record without a proof, or "".
func (r *Record) findUnproved() string {
	redacted := !r.BodyHash.IsZero()
	mark, marked := r.mark()
	switch {
	case r.Text != "" && r.Binary != nil:
		return "it has two bodies"
	case !redacted && len(r.Redacted) > 0:
		return "it names removed values, but none were removed"
	case !redacted:
		return ""
	case r.isWithheld():
	case marked && mark != BodyHash(r.Body()).String():
		return "it is marked as redacted, but shows other values than its engine permits"
	case !marked && string(r.Body()) != RedactedWhole && (r.Entity != "" || string(r.Body()) != redactedDelta):
		return "it is marked as redacted, but nothing proves what it shows"
	}
	if !slices.Equal(r.Redacted, r.findRemoved()) {
		return "its redacted values differ from those that it names"
	}
	return ""
}

// findRemoved derives what was removed from a redacted record from what remains.
func (r *Record) findRemoved() []string {
	switch body := string(r.Body()); {
	case body == RedactedWhole:
		return []string{"*"}
	case r.Entity == "":
		return []string{"delta"}
	}
	var later struct {
		V     int      `json:"v"`
		Hides []string `json:"hides"`
	}
	err := strictjson.UnmarshalOpen(r.Body(), &later, strictjson.MaxBytes(maxRecord)) // a later release may have more members
	if err != nil || later.V >= toolcall.StoredVersion {
		return later.Hides
	}
	var rec toolcall.EventRecord
	if err := strictjson.UnmarshalOpen(r.Body(), &rec, strictjson.MaxBytes(maxRecord)); err != nil || rec.Call == nil {
		return nil
	}
	return rec.Call.HiddenPaths()
}
