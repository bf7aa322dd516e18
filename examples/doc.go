// Package examples contains programs to start from, one per folder, and the test that
// runs the ones that need other processes.
package examples
