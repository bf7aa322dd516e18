// Package mutatetest changes a JSON document in every small way there is, one at
// a time: each member and element left out, put in twice, given another value or
// another kind of value, or moved, down into texts that are JSON themselves. A
// test that holds each of these against a checker needs no list of attacks.
package mutatetest
