// Package termtest runs a process on a terminal of its own, types for it, and
// reads its screen as a person would. Only tests import it.
package termtest
