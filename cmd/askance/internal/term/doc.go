// Package term is how askance writes to people: one Out for each stream, in
// colour only where a terminal is on the other side and NO_COLOR is not set.
//
// Whatever comes from a model, a tool or another person passes through Safe or
// SafeLine before it is shown. Otherwise a tool call could carry escape
// sequences that paint another command over the one that a person is asked
// about, or letters that look like others. What becomes visible, and how, is
// the same as in the inboxes: package internal/reveal. What is printed as JSON
// is for programs and stays as it is.
package term
