//go:build unix && !linux

package e2e_test

import "testing"

// How to mount a small file system differs from system to system.
func smallFileSystem(t *testing.T) {
	t.Log("not tried on this system: the file size limit speaks for it")
}

func smallDisks(*world) bool { return false }

func (*faultRun) fullDisk(int) (end func()) { return func() {} }
