package capacity

import (
	"maps"
	"runtime"
	"slices"
)

// Class is a kind of operation with its own capacity.
type Class int

// The classes.
const (
	Stop   Class = iota // stops calls: interrupt, revoke
	Decide              // writes what a runtime, approver or operator decides
	Work                // belongs to a worker that runs a call
	Read                // reads and replies at once
	Wait                // reads, and rests until there is news
	Offer               // a worker that waits for an item
	classes
)

// Names are the classes' names in the order of their values.
var names = [classes]string{"stop", "decide", "work", "read", "wait", "offer"}

func (c Class) String() string { return names[c] }

// All lists the classes.
func All() []Class { return []Class{Stop, Decide, Work, Read, Wait, Offer} }

// operations is the one table that gives each operation its class, on every
// transport.
var operations = map[string]Class{
	"interrupt": Stop, "revoke": Stop, "revoke_lease": Stop,

	"answer": Decide, "propose": Decide, "report": Decide, "settle": Decide, "emit": Decide,

	"start": Work, "heartbeat": Work, "progress": Work, "result": Work, "ack": Work, "keys": Work,

	"list": Read, "show": Read, "info": Read, "load": Read, "leases": Read, "show_lease": Read,
	"explain": Read, "records": Read, "checkpoint": Read,

	"wait": Wait, "events": Wait,

	"next": Offer,
}

// ClassOf is the class of an operation. An operation without an entry is a
// read: it cannot take the place of a decision.
func ClassOf(op string) Class {
	if c, ok := operations[op]; ok {
		return c
	}
	return Read
}

// Operations lists the operations of a class in alphabetical order.
func Operations(c Class) []string {
	var out []string
	for _, op := range slices.Sorted(maps.Keys(operations)) {
		if operations[op] == c {
			out = append(out, op)
		}
	}
	return out
}

// Limit bounds one class. One principal can use half of each number.
type Limit struct {
	Run     int // requests that run at once
	Running int // bytes of requests that run at once: large ones use the processor
	Stay    int // requests that wait, run or rest at once
	Bytes   int // of these requests, and of replies that a peer has not read
}

const mib = 1 << 20

// Default gives the limits of each class. Reads use the processor, so few run
// at once: a decision then waits for few of them before it gets a processor.
func Default() map[Class]Limit {
	procs := runtime.GOMAXPROCS(0)
	running := max(2, procs) * mib
	return map[Class]Limit{
		Stop:   {Run: 32, Running: running, Stay: 1024, Bytes: 16 * mib},
		Decide: {Run: 64, Running: running, Stay: 4096, Bytes: 64 * mib},
		Work:   {Run: 256, Running: running, Stay: 8192, Bytes: 64 * mib},
		Read:   {Run: max(2, procs), Running: running, Stay: 1024, Bytes: 64 * mib},
		Wait:   {Run: max(4, 2*procs), Running: running, Stay: 4096, Bytes: 64 * mib},
		Offer:  {Run: 4096, Running: running, Stay: 4096, Bytes: 16 * mib},
	}
}
