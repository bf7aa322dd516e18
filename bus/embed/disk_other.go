//go:build !linux && !darwin && !freebsd

package embed

// freeDisk is not known here: the store's own limit counts alone.
func freeDisk(string) (int64, bool) { return 0, false }
