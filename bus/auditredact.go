package bus

import "github.com/askance-dev/askance/message/proof"

// RedactRecord takes out of a record what rules hide, as the engine that wrote it
// said: see [proof.Record.Redact]. Which records are event records their subjects say.
func RedactRecord(r *proof.Record) {
	r.Entity = EntityIn(r.Subject)
	r.Redact()
}
