//go:build linux || darwin || freebsd

package embed

import "syscall"

// FreeDisk returns how many bytes this user can still write to the disk of a folder.
func FreeDisk(dir string) (int64, bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * int64(st.Bsize), true //nolint:unconvert // the types differ between systems
}
