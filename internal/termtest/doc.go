// Package termtest runs a process on a separate terminal, types for it, and reads its screen as a
// person would. Only tests import it.
package termtest
