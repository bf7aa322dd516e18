package activity

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// State holds what a ledger has counted, in a form that can be stored. [Ledger.State]
// returns the events separately.
type State struct {
	Tools     []string                  `json:"tools"`
	Rules     []string                  `json:"rules"`
	Agents    []string                  `json:"agents"`
	Since     map[string]int64          `json:"since"` // by the hash of the call, in nanoseconds
	Cells     []cellState               `json:"cells"`
	Times     []timesState              `json:"times"`
	Forgotten uint32                    `json:"forgotten"`
	Recent    []toolcall.RecentDecision `json:"recent"`
	Next      int                       `json:"next"`
	Workers   []workerState             `json:"workers"`
}

type cellState struct {
	Tool   uint16 `json:"tool"`
	Rule   uint16 `json:"rule"`
	Agent  uint16 `json:"agent"`
	Counts counts `json:"counts"`
}

type timesState struct {
	Tool uint16 `json:"tool"`
	Of   int    `json:"of"`
	N    int    `json:"n"`
	Sum  int64  `json:"sum"`
	In   []int  `json:"in"`
}

type workerState struct {
	Name  string    `json:"name"`
	Tool  string    `json:"tool"`
	Route string    `json:"route,omitzero"`
	At    time.Time `json:"at"`
}

// eventBytes is the size of an event in a stored state.
const eventBytes = 16

// State returns a copy of what was counted, and the events, oldest first, eventBytes each.
func (l *Ledger) State() (State, []byte) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := State{
		Tools: slices.Clone(l.tools.list[1:]), Rules: slices.Clone(l.rules.list[1:]), Agents: slices.Clone(l.agents.list[1:]),
		Since: make(map[string]int64, len(l.since)), Forgotten: l.forgotten, Recent: slices.Clone(l.recent), Next: l.next, Workers: l.Workers.workerStates(),
	}
	for hash, at := range l.since {
		s.Since[fmt.Sprintf("%016x", hash)] = at
	}
	for k, c := range l.total.cells {
		s.Cells = append(s.Cells, cellState{k.tool(), k.rule(), uint16(k), *c})
	}
	for tool, of := range l.total.times {
		for i, t := range of {
			s.Times = append(s.Times, timesState{tool, i, t.n, t.sum, slices.Clone(t.in[:])})
		}
	}
	slices.SortFunc(s.Cells, func(a, b cellState) int {
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Agent, b.Agent))
	})
	slices.SortFunc(s.Times, func(a, b timesState) int { return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Of, b.Of)) })
	slices.SortFunc(s.Workers, func(a, b workerState) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Route, b.Route))
	})
	events := make([]byte, 0, eventBytes*chunkEvents*len(l.chunks))
	for _, c := range l.chunks {
		for _, e := range c.events[:c.n] {
			events = e.append(events)
		}
	}
	return s, events
}

func (e event) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, e.at)
	b = binary.LittleEndian.AppendUint32(b, e.took)
	b = binary.LittleEndian.AppendUint16(b, e.tool)
	b = binary.LittleEndian.AppendUint16(b, e.rule)
	b = binary.LittleEndian.AppendUint16(b, e.agent)
	return append(b, byte(e.kind), 0)
}

func eventOf(b []byte) event {
	at := binary.LittleEndian
	return event{at: at.Uint32(b), took: at.Uint32(b[4:]), tool: at.Uint16(b[8:]), rule: at.Uint16(b[10:]), agent: at.Uint16(b[12:]), kind: kind(b[14])}
}

// Restore fills an empty ledger, which nothing else uses yet, from a stored state.
func (l *Ledger) Restore(s State, events []byte) error {
	for _, n := range []struct {
		of    *names
		names []string
	}{{&l.tools, s.Tools}, {&l.rules, s.Rules}, {&l.agents, s.Agents}} {
		for _, name := range n.names {
			n.of.idOf(name)
		}
	}
	for hash, at := range s.Since {
		var h uint64
		if _, err := fmt.Sscanf(hash, "%016x", &h); err != nil {
			return fmt.Errorf("%q is not the hash of a call", hash)
		}
		l.since[h] = at
	}
	known := func(tool, rule, agent uint16) bool {
		return int(tool) < len(l.tools.list) && int(rule) < len(l.rules.list) && int(agent) < len(l.agents.list)
	}
	if len(events)%eventBytes != 0 || len(s.Cells) > MaxCells+MaxNames+1 || len(s.Recent) > MaxDecisions || s.Next < 0 || s.Next > max(0, len(s.Recent)-1) {
		return errors.New("the stored figures do not fit")
	}
	for b := events; len(b) > 0; b = b[eventBytes:] {
		e := eventOf(b)
		if e.kind >= kinds || !known(e.tool, e.rule, e.agent) {
			return errors.New("a stored event has an unknown name or kind")
		}
		l.keepEvent(e)
	}
	for _, c := range s.Cells {
		if !known(c.Tool, c.Rule, c.Agent) {
			return errors.New("a stored sum has an unknown name")
		}
		l.total.cells[cellOf(c.Tool, c.Rule, c.Agent)] = &c.Counts
	}
	for _, t := range s.Times {
		if !known(t.Tool, 0, 0) || t.Of < 0 || t.Of >= spans || len(t.In) != len(upTo)+1 {
			return errors.New("a stored distribution has an unknown form")
		}
		of := l.total.times[t.Tool]
		if of == nil {
			of = &[spans]times{}
			l.total.times[t.Tool] = of
		}
		of[t.Of] = times{n: t.N, sum: t.Sum, in: [len(upTo) + 1]int(t.In)}
	}
	l.forgotten, l.recent, l.next = max(s.Forgotten, l.forgotten), s.Recent, s.Next
	for _, w := range s.Workers {
		l.Workers.Hear(w.Name, toolcall.Queue{Tool: w.Tool, Route: w.Route}, w.At)
	}
	return nil
}

// Adopt takes over the contents of a restored ledger, which must not be used afterwards.
func (l *Ledger) Adopt(from *Ledger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tools, l.rules, l.agents, l.since, l.total, l.chunks = from.tools, from.rules, from.agents, from.since, from.total, from.chunks
	l.forgotten, l.recent, l.next = from.forgotten, from.recent, from.next
	from.Workers.Each(time.Time{}, l.Workers.Hear)
}
