package bus

import (
	"bytes"
	"slices"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
)

// streamedArguments is in every event with a piece of a call's arguments. Pieces
// cannot be redacted one by one; the facts have the arguments as a whole.
var streamedArguments = []byte(`TOOL_CALL_DELTA`)

// RedactRecord takes out of a record what rules hide. The record carries the
// hash of its true body then, by which it is proved. A fact that cannot be read
// here, and pieces of streamed arguments, are taken out as a whole: nobody can
// say what in them is hidden. Other records stay as they are.
func RedactRecord(r *proof.Record) {
	if !r.BodyHash.IsZero() {
		return
	}
	body := r.Body()
	if TreeIn(r.Subject) == "" {
		if bytes.Contains(body, streamedArguments) {
			hide(r, []byte(proof.RedactedDelta), "delta")
		}
		return
	}
	var f message.Fact
	if err := strictjson.Unmarshal(body, &f, strictjson.MaxBytes(maxStoredBytes)); err != nil {
		hide(r, []byte(proof.RedactedWhole), "*")
		return
	}
	shown := f.Redacted()
	if shown == &f {
		return
	}
	var paths []string
	if f.Call.Question != nil {
		paths = f.Call.Question.Hidden
	}
	paths = slices.Compact(slices.Sorted(slices.Values(slices.Concat(paths, f.Call.Redact))))
	if b, err := strictjson.Marshal(shown); err == nil {
		hide(r, b, paths...)
	} else {
		hide(r, []byte(proof.RedactedWhole), "*")
	}
}

// hide puts what may be shown into the place of the body.
func hide(r *proof.Record, shown []byte, what ...string) {
	hash := proof.BodyHash(r.Body())
	r.SetBody(shown)
	r.BodyHash, r.Redacted = hash, what
}
