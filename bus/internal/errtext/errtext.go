// Package errtext has the texts that errors of the packages of bus share.
package errtext

import (
	"fmt"
	"strconv"
)

// Quote repeats outside text in an error, cut to a bearable length.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "… (" + strconv.Itoa(len(s)) + " bytes)"
	}
	return strconv.Quote(s)
}

// Because joins two errors in one line; either one may be nil.
func Because(err, cause error) error {
	switch {
	case err == nil:
		return cause
	case cause == nil:
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}
