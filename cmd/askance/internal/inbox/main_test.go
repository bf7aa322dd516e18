package inbox_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/clitest"
	"github.com/askance-dev/askance/internal/termtest"
)

// TestMain lets the test binary stand in for askance, so the inbox runs as it does for people: in
// a separate process on its own terminal.
func TestMain(m *testing.M) { clitest.Main(m, cli.Process) }

// open starts askance on a terminal of the given size.
func open(t *testing.T, width, height int, env []string, args ...string) *termtest.Terminal {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = env
	return termtest.Open(t, width, height, cmd)
}

// The keys that have names.
const (
	enter = "\r"
	esc   = "\x1b"
	ctrlC = "\x03"
	ctrlS = "\x13"
	ctrlZ = "\x1a"
)

// volatile describes what differs from run to run.
var volatile = []clitest.Volatile{
	{What: regexp.MustCompile(`(?m) *│$`), With: ""}, // the right border moves with the text before it
	{What: regexp.MustCompile(`[0-9a-f]{16,}`), With: "HASH"},
	{What: regexp.MustCompile(`(?m)^(│? +)[0-9a-f]{2,15}[\]"}]*$`), With: "${1}TAIL"}, // the rest of a value that was cut
	{What: regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), With: "INSTANT"},
	{What: regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), With: "DATE TIME"},
	{What: regexp.MustCompile(`\b\d+(s|m( \d+s)?|h( \d+m)?|d( \d+h)?)\b`), With: "T"},
	{What: regexp.MustCompile(`\bT +`), With: "T  "}, // in a padded column
}

// golden compares a screen with a file in testdata.
func golden(t *testing.T, name, screen string) {
	t.Helper()
	clitest.Golden(t, name, strings.TrimRight(screen, "\n")+"\n", volatile...)
}
