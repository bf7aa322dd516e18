package secretfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/askance-dev/askance/bus/internal/secretfile"
)

// Kubernetes gives root the files of a secret, and the group of the pod (fsGroup) reads them. It
// does not use defaultMode then.
func TestSecretOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 { // others give no files away
		return
	}
	const user = 65532
	path := filepath.Join(t.TempDir(), "engine.key")
	if err := errors.Join(os.WriteFile(path, []byte("secret"), 0o600), os.Chmod(filepath.Dir(path), 0o755), os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		owner int
		mode  fs.FileMode
		as    int
		want  bool
	}{
		{0, 0o440, user, true},
		{0, 0o444, user, false},
		{0, 0o460, user, false},
		{user, 0o400, user, true},
		{user, 0o440, user, false},
		{0, 0o400, 0, true},
		{0, 0o440, 0, false},
	} {
		if err := errors.Join(os.Chown(path, c.owner, user), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		err := errors.Join(syscall.Setresgid(-1, c.as, -1), syscall.Setresuid(-1, c.as, -1))
		_, got := secretfile.Read("test", path, true)
		if err = errors.Join(err, syscall.Setresuid(-1, 0, -1), syscall.Setresgid(-1, 0, -1)); err != nil {
			t.Fatal(err)
		}
		if (got == nil) != c.want {
			t.Errorf("user %d reads %s of user %d: %v", c.as, c.mode, c.owner, got)
		}
	}
}

// What another user puts in the place of the temporary file is not written through.
func TestWriteFollowsNoLink(t *testing.T) {
	path, victim := filepath.Join(t.TempDir(), "archive"), filepath.Join(t.TempDir(), "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("old"), 0o600), os.Symlink(victim, path+secretfile.Unfinished)); err != nil {
		t.Fatal(err)
	}
	err := secretfile.Write("test", path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err })
	old, err2 := os.ReadFile(victim)
	now, err3 := os.ReadFile(path)
	if err := errors.Join(err, err2, err3); err != nil || string(old) != "old" || string(now) != "new" {
		t.Errorf("the other file has %q and the written one %q, %v", old, now, err)
	}
}
