package secretfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/message"
)

// The command of the hint works for a path with a space.
func TestHintIsACommand(t *testing.T) {
	if runtime.GOOS == "windows" { // files have no mode there
		return
	}
	path := filepath.Join(t.TempDir(), "my key")
	if err := os.WriteFile(path, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := secretfile.Read("test", path, true)
	if err == nil || message.AsError("", err).Hint != "chmod 600 '"+path+"'" {
		t.Errorf("%+v", err)
	}
}
