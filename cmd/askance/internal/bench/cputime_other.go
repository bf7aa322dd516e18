//go:build !unix

package bench

import "time"

// processTime returns 0: it is unknown on this system.
func processTime() (user, system time.Duration) { return 0, 0 }
