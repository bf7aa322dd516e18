package proof

import (
	"bytes"
	"slices"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
)

// HeaderShown is the header in which an engine says, as it stores a record, what
// may be shown of it: ShownWhole, or the SHA-256 of the redacted body. As every
// header of ours it is under the record's hash. So who hands a record on can
// redact it in this one way only, and each byte that is shown is proved.
const HeaderShown = "Askance-Shown"

// ShownWhole says that a record is shown as it is.
const ShownWhole = "whole"

// streamedArguments is in every event with a piece of a call's arguments. Pieces
// cannot be redacted one by one; the event records have the arguments as a whole.
var streamedArguments = []byte(`TOOL_CALL_DELTA`)

// Shown gives the body that may be shown of a record, and what was taken out of
// it; nothing was if what is nil. Of an event record that this program cannot read
// nothing is shown: what in it is hidden cannot be said.
//
// The hash of what it gives is stored: of a body that is in a journal it must
// always give the same.
func Shown(body []byte, record bool) (shown []byte, what []string) {
	if !record {
		if bytes.Contains(body, streamedArguments) {
			return []byte(RedactedDelta), []string{"delta"}
		}
		return body, nil
	}
	whole := func() ([]byte, []string) { return []byte(RedactedWhole), []string{"*"} }
	var f toolcall.EventRecord
	if err := strictjson.Unmarshal(body, &f, strictjson.MaxBytes(maxRecord)); err != nil {
		return whole()
	}
	redacted := f.Redacted()
	if redacted == &f {
		return body, nil
	}
	shown, err := strictjson.Marshal(redacted)
	if err != nil {
		return whole()
	}
	return shown, hiddenIn(&f)
}

// MarkOf is the value of HeaderShown for a body that is shown so.
func MarkOf(shown []byte, what []string) string {
	if what == nil {
		return ShownWhole
	}
	return BodyHash(shown).String()
}

// Redact takes out of a record what rules hide. The record carries the hash of
// its true body then, by which it is proved. If what may be shown is not what
// the engine that wrote it said, or it did not say, nothing is.
func (r *Record) Redact() {
	if !r.BodyHash.IsZero() {
		return
	}
	body := r.Body()
	shown, what := Shown(body, r.Entity != "")
	mark, marked := r.mark()
	switch {
	case what == nil:
		return
	case !marked && r.Entity == "": // nothing is left of it anyway
	case mark == ShownWhole && what[0] == "*": // of a later engine, which hides nothing of it
		return
	case mark != MarkOf(shown, what):
		shown, what = []byte(RedactedWhole), []string{"*"}
	}
	hash := BodyHash(body)
	r.SetBody(shown)
	r.BodyHash, r.Redacted = hash, what
}

// mark is what the engine said may be shown. Earlier ones said nothing.
func (r *Record) mark() (string, bool) {
	values := r.Header[HeaderShown]
	if len(values) != 1 {
		return "", len(values) > 0
	}
	return values[0], true
}

// isWithheld reports whether nothing is shown of the record, though its engine
// says that something may be.
func (r *Record) isWithheld() bool {
	mark, marked := r.mark()
	return !r.BodyHash.IsZero() && marked && string(r.Body()) == RedactedWhole && mark != BodyHash(r.Body()).String()
}

// findUnproved says what of a record is shown without a proof; "" if nothing is.
func (r *Record) findUnproved() string {
	redacted := !r.BodyHash.IsZero()
	mark, marked := r.mark()
	switch {
	case r.Text != "" && r.Binary != nil:
		return "it has two bodies"
	case !redacted && len(r.Redacted) > 0:
		return "it names what was taken out, and nothing was"
	case !redacted:
		return ""
	case r.isWithheld():
	case marked && mark != BodyHash(r.Body()).String():
		return "it is said to be redacted, and what is shown is not what the engine that wrote it lets be shown"
	case !marked && string(r.Body()) != RedactedWhole && (r.Entity != "" || string(r.Body()) != RedactedDelta):
		return "it is said to be redacted, and nothing proves what is shown of it"
	}
	if !slices.Equal(r.Redacted, r.findTaken()) {
		return "it is redacted in another way than it says"
	}
	return ""
}

// findTaken is what was taken out of a redacted record, by what is left.
func (r *Record) findTaken() []string {
	switch body := string(r.Body()); {
	case body == RedactedWhole:
		return []string{"*"}
	case r.Entity == "":
		return []string{"delta"}
	}
	var f toolcall.EventRecord
	if err := strictjson.UnmarshalOpen(r.Body(), &f, strictjson.MaxBytes(maxRecord)); err != nil { // a later release may say more
		return nil
	}
	return hiddenIn(&f)
}

// hiddenIn are the paths that rules hide of an event record, in order.
func hiddenIn(f *toolcall.EventRecord) []string {
	if f.Call == nil {
		return nil
	}
	paths := slices.Clone(f.Call.Redact)
	if f.Call.Request != nil {
		paths = append(paths, f.Call.Request.Hidden...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
