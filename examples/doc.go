// Package examples holds programs to begin from, one folder each, and the test
// that runs those which need other processes.
package examples
