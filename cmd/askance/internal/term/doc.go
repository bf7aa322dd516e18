// Package term is how askance writes to people: one Out for each stream, in
// colour only where a terminal is on the other side and NO_COLOR is not set.
//
// Whatever comes from a model, a tool or another person passes through Safe or
// SafeLine before it is shown. Otherwise a tool call could carry escape
// sequences that paint another command over the one that a person is asked
// about.
package term
