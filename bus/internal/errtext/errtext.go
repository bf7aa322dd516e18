// Package errtext formats error texts for the packages in bus.
package errtext

import (
	"fmt"
	"strconv"
)

// Quote quotes outside text for an error, and shortens it.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}

// Because joins two errors in one line; either may be nil.
func Because(err, cause error) error {
	switch {
	case err == nil:
		return cause
	case cause == nil:
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
