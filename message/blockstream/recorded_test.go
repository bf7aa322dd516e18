package blockstream_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
)

// Every event stream that was recorded from AgentScope becomes frames in a valid order, and its
// text and finished calls reach the clients.
func TestRecordedStreams(t *testing.T) {
	data, err := os.ReadFile("../testdata/agentscope/events_to_msg.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	rows, blocks := 0, 0
	for line := range bytes.Lines(data) {
		var row struct {
			Name   string
			Events []json.RawMessage
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		rows++
		t.Run(row.Name, func(t *testing.T) { blocks += playRecorded(t, row.Events) })
	}
	if rows < 40 {
		t.Errorf("%d rows", rows)
	}
	if blocks < 60 {
		t.Errorf("only %d blocks: most of the streams were not shown", blocks)
	}
}

// playRecorded returns the number of blocks that the stream became.
func playRecorded(t *testing.T, raws []json.RawMessage) int {
	var m *blockstream.Mapper
	var frames []blockstream.Frame
	for _, raw := range raws {
		e, err := message.DecodeEvent(raw)
		if err != nil {
			continue // recorded because it is refused
		}
		if m == nil {
			session := message.SessionID("sess-1")
			if s, ok := e.(*message.ReplyStart); ok {
				session = s.Session
			}
			m = newMapper(t, func(c *blockstream.Config) { c.Session = session })
		}
		out, err := m.Event(e)
		if err != nil && !errors.Is(err, blockstream.ErrUnshowable) {
			t.Fatalf("%s: %v", raw, err)
		}
		frames = append(frames, out...)
	}
	if m == nil {
		return 0
	}
	frames = append(frames, m.Close()...)
	lines(t, frames) // checks the order and round trips
	r, d := newReact(), newDart()
	feed(t, r, frames)
	feed(t, d, frames)
	if r.ignored+d.ignored != 0 || r.streaming || d.streaming {
		t.Errorf("ignored %d and %d", r.ignored, d.ignored)
	}
	blocks := 0
	for _, f := range frames {
		if _, ok := f.(*blockstream.BlockStart); ok {
			blocks++
		}
	}
	return blocks
}
