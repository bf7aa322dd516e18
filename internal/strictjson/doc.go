// Package strictjson decodes JSON from outside, and encodes our own.
//
// The standard decoder accepts "Behavior" for "behavior", keeps the last of two equal
// names, replaces broken UTF-8 and ignores unknown members. If a checker and a runner
// disagree on such input, something runs that was not allowed. This package is
// therefore the only decoder of outside input in the module:
//
//   - member names match exactly, including case;
//   - a name occurs at most once in an object;
//   - text is valid UTF-8, without lone surrogate escapes;
//   - there is exactly one value, and only white space after it;
//   - members that the Go type does not have are refused ([Unmarshal]) or
//     dropped ([UnmarshalOpen]; AgentScope's rule for its own messages);
//   - size and nesting are bounded before anything is built
//     ([DefaultMaxBytes], [DefaultMaxDepth]; [MaxBytes], [MaxDepth]);
//   - numbers decoded into an any keep their value: integers become int64 and
//     are refused if they do not fit, all others become float64.
//
// Every failure is an [*Error]: what went wrong (a sentinel), where (a JSON pointer and
// a byte offset) and what to do.
//
// [Marshal] is the only encoding of our own output: members in a fixed order, nil
// slices as [], nil maps as {}, no HTML escapes. It is deterministic, but not RFC 8785;
// internal/jcs encodes what is hashed or signed.
//
// A type can decode itself with UnmarshalJSON as usual. Unknown members in it are then
// not refused automatically, but all other checks are already done. [Members] and
// [Items] split one level of a value for it.
//
// All functions are safe for concurrent use. After an error, the value decoded into may
// be partly filled.
package strictjson
