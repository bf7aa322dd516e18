//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// killsVar is the number of kills in time in each cell of TestInputsKilled.
const killsVar = "ASKANCE_E2E_INPUT_KILLS"

// defaultInputKills is for ordinary runs; maxTries bounds the tries for each kill.
const (
	defaultInputKills = 2
	maxTries          = 8
)

// inputCell is a cell of the matrix: a tool, the process that is killed while it runs, and the
// size of its input.
type inputCell struct {
	tool   string
	worker bool // the worker is killed, else the engine
	size   int
}

func (c inputCell) String() string {
	victim := "engine"
	if c.worker {
		victim = "worker"
	}
	return fmt.Sprintf("%s of %d bytes, %s killed", c.tool, c.size, victim)
}

// inputCells returns all cells. The larger inputs do not fit in a pipe.
func inputCells() (cells []inputCell) {
	for _, tool := range pipedTools {
		for _, size := range []int{60 << 10, 200_020} {
			cells = append(cells, inputCell{tool, false, size}, inputCell{tool, true, size})
		}
	}
	return cells
}

// TestInputsKilled kills the engine or the worker while tools with large inputs run. Such a tool is
// a pipe that outlives its shell: it acts on the complete input or not at all.
func TestInputsKilled(t *testing.T) {
	t.Parallel()
	want := defaultInputKills
	if text := os.Getenv(killsVar); text != "" {
		var err error
		if want, err = strconv.Atoi(text); err != nil || want < 1 {
			t.Fatalf("%s=%q is not a number of kills", killsVar, text)
		}
	}
	w := newWorld(t)
	w.tools(slices.Concat(allTools, pipedTools)...)
	s := newStageIn(w, w.embedded())
	s.workers[ledger] = s.worker("worker-"+ledger, ledger)
	s.workers[ledger].start()
	s.workers[ledger].up()

	strikes := map[inputCell][]strike{}
	inTime := func(c inputCell) int { return s.hits(point{hit: running}, strikes[c]) }
	for n := 0; slices.ContainsFunc(inputCells(), func(c inputCell) bool { return inTime(c) < want }); {
		for _, c := range inputCells() {
			if inTime(c) >= want {
				continue
			}
			if len(strikes[c]) >= maxTries*want {
				t.Fatalf("%s: %d of %d kills came in time, want %d", c, inTime(c), len(strikes[c]), want)
			}
			strikes[c] = append(strikes[c], s.strikeInput(c, n, len(strikes[c])-inTime(c)))
			n++
		}
		s.rest() // now the journal has everything from before the kills
	}
	s.finish()
}

// strikeInput proposes a call of the cell and one of the other tool, and kills the process while
// the call runs. The calls run longer after each kill that was late.
func (s *stage) strikeInput(c inputCell, n, late int) strike {
	s.t.Helper()
	session, reply := fmt.Sprintf("s%d", n%3), fmt.Sprintf("r%d", n)
	struck := key(session, reply, "struck")
	seen := s.obs.when(step(struck, toolcall.CauseStart))
	other := pipedTools[0]
	if other == c.tool {
		other = pipedTools[1]
	}
	_, err := s.bot.propose(proposal(session, reply, s.sized("struck", c.tool, c.size, late), s.sized("other", other, c.size, late)))
	s.must(err)
	victim := s.engine
	if c.worker {
		victim = s.workers[ledger]
	}
	dead := s.killAt(victim, seen, 40*ms, c.String())
	victim.start()
	victim.up()
	return strike{struck: struck, dead: dead}
}

// sized returns a call whose input has exactly size bytes, after so many late kills.
func (w *world) sized(id, tool string, size, late int) message.ToolCallBlock {
	w.t.Helper()
	in := w.input(false)
	in.After += 200 << min(late, 4) // so that the kill is in time even if the test sees the start late
	in.Pad = "x"
	in.Pad = strings.Repeat("x", 1+size-len(w.block(id, tool, in).Input))
	return w.block(id, tool, in)
}
