package clitest

import (
	"os"
	"strings"
	"testing"
)

// Main runs tests, or stands in for askance if the test binary is called as
// askance would be: processes and terminals of their own are real then. process
// is cli.Process.
func Main(m *testing.M, process func(args []string) int) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		os.Exit(process(os.Args[1:]))
	}
	os.Exit(m.Run())
}
