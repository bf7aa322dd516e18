// Package format lays out rule files in one way, and loses nothing on it.
//
//	out, err := format.Source("rules.yaml", data)
//
// It puts the keys of the file, of rules and of tests into their usual order,
// separates rules and tests of more than one line by an empty line, indents them
// by two, and takes out trailing space and repeated empty lines. Comments stay
// with the key or the rule that they stand before. Values are not touched: not
// the conditions, not the quoting, nothing in braces.
//
// Source works on lines and checks its own work: the result has the same lines
// as before, moved and indented, and reads as the same policy; anything else is
// an error, and the file is left alone. Formatting twice changes nothing.
package format
