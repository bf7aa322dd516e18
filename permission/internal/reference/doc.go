// Package reference writes permission/REFERENCE.md: the variables, functions,
// keys of rule files and lint codes, as the code has them.
//
//	text, err := reference.Markdown()
//
// Nothing imports it but its test, which compares the file with the code, and
// rewrites it for `make generate`.
package reference

//go:generate go test -run TestReference . -update
