package bus_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
)

// Damage of a block that the server compressed is damage of the journal.
func TestDamageOfACompressedBlock(t *testing.T) {
	size := func(b []byte) []byte { b[5] ^= 0x55; return b }
	for _, d := range []struct {
		name    string
		do      func([]byte) []byte
		indexed bool
		whole   bool
	}{
		{name: "nothing", do: func(b []byte) []byte { return b }, whole: true},
		{name: "its size, which only the store's limit counts", do: size, whole: true},
		{name: "half cut", do: func(b []byte) []byte { return b[:len(b)/2] }, indexed: true},
		{name: "its mark", do: func(b []byte) []byte { b[1] ^= 0x55; return b }},
		{name: "byte flipped at the beginning", do: flip(0.01), indexed: true},
		{name: "byte flipped in the middle", do: flip(0.5)},
		{name: "byte flipped in the middle, with index", do: flip(0.5), indexed: true},
		{name: "byte flipped at the end", do: flip(1)},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := dataFolder{t.TempDir()}
			o := s.mustOpen(t)
			for i := range allCalls {
				r := callRecord(id(i), callKey(fmt.Sprint("c", i)), message.ToolCallPending, "propose")
				r.Call.Input = `{"text":"` + strings.Repeat(fmt.Sprintf("line of call %d;", i), 5000) + `"}`
				mustAppend(t, o.journal, r, 0)
			}
			for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
				if b, err := os.ReadFile(s.block()); err == nil && bytes.HasPrefix(b, []byte("cmp")) {
					break
				}
				if time.Now().After(limit) {
					t.Fatal("the first block is not compressed")
				}
			}
			o.stop(t)
			change(t, s.block(), d.do)
			if !d.indexed {
				removeIndex(t, s.journal())
			}
			switch err := s.serve(t); {
			case d.whole && err != nil:
				t.Errorf("refused: %v", err)
			case !d.whole && !errors.Is(err, message.ErrDamaged):
				t.Errorf("served: %v", err)
			}
		})
	}
}
