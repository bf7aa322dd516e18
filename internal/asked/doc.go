// Package asked words approval requests and responses for people: who must agree, what
// was said, how long there is, what became of it, which arguments run and what
// an edit changes in them. The commands, the terminal inbox and the web inbox
// share it, so that all say the same.
//
// Text that comes from strangers (names, rules, reasons) is made visible by
// package reveal where a function's comment does not say otherwise. All
// functions are pure.
package asked
