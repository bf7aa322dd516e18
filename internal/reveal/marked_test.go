package reveal_test

import (
	"testing"

	"github.com/askance-dev/askance/internal/reveal"
)

// A name in one alphabet stays unchanged. If it mixes Latin with look-alikes, those are marked.
func TestMarkedName(t *testing.T) {
	for in, want := range map[string]string{
		"агент": "агент", "агент-Ω": "агент-Ω", "bot-Иван": "bot-Иван", "José": "José",
		"pаypal": "p‹U+0430›ypal", "агент\u202e": "агент‹U+202E›",
	} {
		if got := reveal.MarkedName(in); got != want {
			t.Errorf("MarkedName(%q) = %q, want %q", in, got, want)
		}
	}
}
