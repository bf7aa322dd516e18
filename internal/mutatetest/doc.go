// Package mutatetest changes a JSON document in every small way, one at a time: each member
// and element is left out, repeated, given another value or kind of value, or moved, including
// inside strings that are JSON themselves. A test that checks all of these needs no list of
// attacks.
package mutatetest
