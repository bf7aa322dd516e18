// Package strictjson reads JSON that came from outside, and writes ours.
//
// The standard decoder accepts "Behavior" for "behavior", lets the last of two
// equal names win, replaces broken UTF-8 and ignores unknown members. If a checker
// and a runner disagree on such input, something runs that was not allowed. This
// package is therefore the only decoder of outside input in the module:
//
//   - member names match exactly, case included;
//   - a name may occur once in an object;
//   - text is valid UTF-8, lone surrogate escapes refused;
//   - exactly one value, nothing after it but white space;
//   - members that the Go type does not have are refused ([Unmarshal]) or
//     dropped ([UnmarshalOpen]; AgentScope's rule for its own messages);
//   - size and nesting are bounded before anything is built
//     ([DefaultMaxBytes], [DefaultMaxDepth]; [MaxBytes], [MaxDepth]);
//   - numbers that land in an any keep their value: integers become int64 and
//     are refused when they do not fit, all others become float64.
//
// Every failure is an [*Error]: what went wrong (a sentinel), where (a JSON
// pointer and a byte offset) and what to do.
//
// [Marshal] is the one encoding of our own output: members in a fixed order,
// nil slices as [], nil maps as {}, no HTML escapes. It is deterministic, but
// not RFC 8785; internal/jcs encodes what is hashed or signed.
//
// A type that decodes itself takes part through UnmarshalJSON as usual; the
// option to refuse unknown members does not reach into it, the other checks
// have been made by then. [Members] and [Items] take one level apart for it.
//
// All functions may be called from several goroutines at once. A value that is
// being decoded into may be partly filled when an error is returned.
package strictjson
