package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/toolcall"
)

// Update decides from the state it knows, but returns an error or "no change" only after it
// has read the journal.
func TestUpdate(t *testing.T) {
	session := toolcall.Key{Space: "x", Session: "s"}
	refuse := errors.New("refused")
	tests := []struct {
		name   string
		bound  string // in the journal, before
		known  bool   // a state without the binding is known
		step   func(bound string) error
		reads  int
		want   error
		stored bool
	}{
		{"unknown", "", false, func(string) error { return nil }, 1, nil, true},
		{"known, and right", "", true, func(string) error { return nil }, 0, nil, true},
		{"known, and old", "bot", true, func(bound string) error {
			if bound != "" {
				return store.ErrNoChange
			}
			return nil
		}, 1, store.ErrNoChange, false},
		{"an error from an old state", "bot", true, func(bound string) error {
			if bound == "" {
				return refuse
			}
			return store.ErrNoChange
		}, 1, store.ErrNoChange, false},
		{"an error that stays", "bot", true, func(string) error { return refuse }, 1, refuse, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := follow(t, engine.NewMemory(), view.New(10), quiet())
			var last uint64
			if tt.bound != "" {
				var err error
				if last, err = s.Append(t.Context(), binding(s), 0); err != nil {
					t.Fatal(err)
				}
			}
			reads := 0
			e := store.Entity[string]{Key: session, Read: func(ctx context.Context) (string, uint64, error) {
				reads++
				state, seq, err := s.LastSession(ctx, session)
				return state.Runtime, seq, err
			}}
			if tt.known {
				e.Known = func() (string, uint64, bool) { return "", 0, true }
			}
			state, seq, err := store.Update(t.Context(), s, e, func(_ context.Context, bound string) (*toolcall.EventRecord, error) {
				return binding(s), tt.step(bound)
			})
			if !errors.Is(err, tt.want) || reads != tt.reads || (err == nil) != tt.stored {
				t.Fatalf("Update = %v after %d readings, want %v after %d", err, reads, tt.want, tt.reads)
			}
			if !tt.stored && (state != tt.bound || seq != last) {
				t.Errorf("the current state is %q at %d, want %q at %d", state, seq, tt.bound, last)
			}
		})
	}
}
