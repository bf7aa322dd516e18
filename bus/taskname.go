package bus

import (
	"strconv"
	"strings"
)

// ackPrefix begins the acknowledgement subjects of JetStream, which name tasks.
const ackPrefix = "$JS.ACK."

// isTask reports whether text is the acknowledgement subject of a task of that
// consumer: $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer
// seq>.<time>.<pending>, or with domain and account before the stream and a
// random token at the end.
func isTask(text, stream, consumer string) bool {
	rest, ok := strings.CutPrefix(text, ackPrefix)
	parts := strings.Split(rest, ".")
	at := 0
	if len(parts) >= 9 {
		at = 2
	}
	if !ok || len(parts) < at+7 || len(parts) > at+8 || parts[at] != stream || parts[at+1] != consumer {
		return false
	}
	for i, p := range parts {
		if p == "" || strings.ContainsAny(p, "*> \t\r\n") {
			return false
		}
		if _, err := strconv.ParseUint(p, 10, 64); err != nil && i >= at+2 && i < at+7 {
			return false
		}
	}
	return true
}

// delivered reads from a task's acknowledgement subject how often it was
// handed out.
func delivered(task string) int {
	parts := strings.Split(task, ".")
	at := 4
	if len(parts) >= 11 {
		at = 6
	}
	if len(parts) <= at {
		return 1
	}
	n, err := strconv.Atoi(parts[at])
	if err != nil || n < 1 {
		return 1
	}
	return n
}
