// Package asked phrases approval requests and responses for people: who must agree, what was
// said, how much time is left, the outcome, which arguments run, and what an edit changes in
// them. The commands, the terminal inbox and the web inbox share it, so they all use the
// same words.
//
// Untrusted text (names, rules, reasons) is revealed with package reveal, unless a function's
// comment says otherwise. All functions are pure.
package asked
