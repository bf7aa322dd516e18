//go:build unix

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// fileLimit is the maximum size of the files of an engine, in blocks of 512 bytes.
const fileLimit = 2048

// TestDiskFull makes writes of an engine with an embedded NATS server fail: the kernel refuses to
// let files grow, which needs no privileges, and, where one can be mounted, a small file system is
// really full. Requests that do not fit are refused with a typed error and nothing acknowledged
// is lost. When there is room again, every call is completed.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	t.Run("file size limit", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		engine := w.embedded()
		free := engine.argv
		engine.argv = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -f %d && exec "$@"`, fileLimit), "sh"}, free...)
		s := newStageIn(w, engine)
		s.begun()
		refused := s.untilFull()
		engine.kill()
		engine.argv = free
		engine.start()
		s.resumes(refused)
	})
	t.Run("small file system", smallFileSystem)
}

// untilFull proposes large approval requests until one is refused.
func (s *stage) untilFull() toolcall.ProposeRequest {
	s.t.Helper()
	for n := 1; n <= 1000; n++ {
		r := proposal("full", fmt.Sprintf("r%d", n), s.block("c", allTools[n%4], effect.Input{N: n, Ask: true, Pad: strings.Repeat("x", 100_000)}))
		ctx, cancel := context.WithTimeout(s.t.Context(), patience)
		got, err := s.bot.Propose(ctx, r)
		cancel()
		switch {
		case errors.Is(err, message.ErrFull):
			s.t.Logf("%d proposals until the disk was full: %v", n, err)
			return r
		case err != nil:
			s.t.Fatalf("proposal %d on a full disk: %v, want an error with code %s", n, err, message.CodeFull)
		}
		s.acknowledged("propose", got.Calls...)
	}
	s.t.Fatal("the disk did not fill up")
	return toolcall.ProposeRequest{}
}
