//go:build unix && !linux

package e2e_test

import "testing"

// Mounting a small file system differs from system to system.
func smallFileSystem(t *testing.T) {
	t.Log("not supported on this system: only the file size limit is tested")
}

func smallDisks(*world) bool { return false }

func (*faultRun) fullDisk(int) (end func()) { return func() {} }
