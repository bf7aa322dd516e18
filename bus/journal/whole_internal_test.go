package journal

import (
	"errors"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
)

// A stream that the server could not write to is not reported as damaged, because the server counts
// a record before it writes it. Every other flaw is still reported.
func TestFlawsOfAStoreThatCannotBeWritten(t *testing.T) {
	journal, proof := bus.StreamName("test"), LedgerName("test")
	tests := []struct {
		name   string
		broken []string
		flaws  []FlawKind
		ok     bool
		code   message.Code // of the error
	}{
		{"a healthy server", nil, []FlawKind{FlawProof}, false, ""},
		{"the checkpoints", []string{proof}, []FlawKind{FlawProof}, true, ""},
		{"the checkpoints, and the journal lost records", []string{proof}, []FlawKind{FlawProof, FlawTail}, false, ""},
		{"the journal", []string{journal}, []FlawKind{FlawHole}, false, message.CodeUnavailable},
		{"the journal, and the checkpoints are damaged", []string{journal}, []FlawKind{FlawProof}, false, message.CodeUnavailable},
		{"both", []string{journal, proof}, []FlawKind{FlawProof}, true, ""},
		{"another stream", []string{"OTHER"}, []FlawKind{FlawTail}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := &guard{codec: codec{space: "test"}, store: reader{stream: journal}, health: func() error {
				if tt.broken == nil {
					return nil
				}
				return &HealthError{Broken: tt.broken}
			}}
			x := &Exam{}
			for _, k := range tt.flaws {
				x.addFlaw(k, 0, 0, "flaw")
			}
			err := g.ignoreBroken(x)
			var e *message.Error
			if errors.As(err, &e) != (tt.code != "") || e != nil && e.Code != tt.code {
				t.Errorf("ignoreBroken returned %v, want code %q", err, tt.code)
			}
			if x.OK != tt.ok {
				t.Errorf("left %v, OK %t, want %t", x.Flaws, x.OK, tt.ok)
			}
		})
	}
}
