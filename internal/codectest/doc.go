// Package codectest has what the tests of every codec ask: that what was read
// can be written and read again, and that two JSON texts say the same. Only tests
// import it.
package codectest
