//go:build !linux

package e2e_test

import "os/exec"

// This system has no such feature: a broken run may leave processes behind.
func dieWithParent(*exec.Cmd) {}
