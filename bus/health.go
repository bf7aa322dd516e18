package bus

import (
	"strings"
)

// HealthError says what is wrong with a server.
type HealthError struct {
	Problems []string
	// Broken are the streams whose files could not be written. They take nothing
	// any more until the server is restarted: what is not in them by now will never
	// be.
	Broken []string
}

func (e *HealthError) Error() string {
	if len(e.Problems) == 0 {
		return "the server is not well"
	}
	return strings.Join(e.Problems, "; ")
}
