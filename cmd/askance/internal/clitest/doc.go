// Package clitest has what the tests of the command share: a test binary that
// stands in for askance itself, and golden files. Only tests import it.
package clitest
