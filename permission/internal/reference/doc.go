// Package reference writes permission/REFERENCE.md: the variables, functions, keys of rule files
// and lint codes, generated from the code.
//
//	text, err := reference.Markdown()
//
// Only its test imports it. The test compares the file with the code, and rewrites the file for
// `make generate`.
package reference

//go:generate go test -run TestReference . -update
