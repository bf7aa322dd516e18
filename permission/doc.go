// Package permission decides tool calls: allow, deny, or ask a person.
//
// A policy is a set of rules, written as YAML or imported ([FromSpecifiers], [FromContext]).
// [Load] compiles rule files against the declared tools into a [Bundle], which is immutable and
// named by a hash of its content. [Bundle.Decide] answers one [Request] with a [Decision], and
// [Bundle.Explain] says why. [Live] holds the bundle in force and reloads it.
//
// People who write policies start with docs/tutorials/policy.md and look up keys, variables,
// functions and lint codes in REFERENCE.md. Editors use policy.schema.json.
//
// # Rule files
//
// REFERENCE.md describes their keys, and COOKBOOK.md has examples.
//
// Only deny and ask rules can apply to "*". With content they apply to files, for any
// tool ([PathKind]). A rule for server/* applies to the declared tools of that server and,
// if it denies or asks, to undeclared tools whose names begin with mcp__server__, server. or
// server/.
//
// Keys are strict: an unknown or duplicate key refuses the file, as does any other fault in any
// rule. [LoadError] lists every fault with file, line and column. Tests in a file decide
// nothing; package permission/suite runs them. A [File] has a [Layer]. Layers do not decide
// between rules: a file can only disable rules of higher layers by name, unless they are locked.
//
// # What rules require
//
// This package checks and joins what rules require of approvers and of the run, and states it in
// the [Decision]; the engine enforces it. A requirement that the engine does not enforce is a load
// error: see [Duty] and [Options].Enforced.
//
// All ask rules that match or fail ask together, as strictly as the strictest:
//
//	who            of rules that only list users, those on all lists; and of each
//	               rule with groups or an escalation the people whom it accepts
//	signed         if one rule says so
//	quorum         of each rule among its people, and of one without people
//	               among all; the requester is excluded if one rule says so
//	expiry         the shortest, or the policy's; then deny, unless all escalate
//	remember       nothing, unless all allow it: all scopes, the shortest time, the fewest uses
//
// If too few people are left, the call is denied. Redact, executor and audit come from every
// rule that matches the call, even if another rule decides. What any of them hides is hidden
// everywhere, including in its texts, where [redacted] replaces it. The shortest timeout
// applies, and two different executors deny the call.
//
// A rule with enforcement warn or audit decides nothing; its matches are in [Decision].Watched.
//
// # Conditions
//
// when is a CEL expression of type bool and message one of type string. They see args, tool,
// caller, ctx, cmd for tools of a [ShellKind], and the terms of the vocabulary. What a request
// does not know about its caller and run is absent: a rule that reads it fails, unless it guards
// the access with has() or args.?field.
//
// The language is CEL at fixed versions, with [Functions] for paths and URLs that refuse text
// which programs read in different ways ([PathError], [URLError]). Expressions cannot read
// clocks, files or networks: the same request gets the same answer. [Request.Resolve] follows
// symbolic links beforehand. Integers keep 64 bits. An input that would lose digits is refused,
// and so is one with a member that differs from a declared one only in case.
//
// The cost of an expression is either proved at load time to be small for every input that the
// schema accepts, or measured and limited at run time ([Limits]). A part joined by && that compares
// a field with a constant is checked first: if it is false, the rule is skipped without running
// CEL. Module permission/benchpeers has measurements.
//
// # Precedence
//
// Deny outranks ask, and ask outranks allow, in any order of rules, files and sources.
// Rules of the session ([Request].SessionRules) join those of the bundle. The first step that
// applies decides:
//
//	step                          default  accept_edits  explore  bypass   dont_ask
//	1 a deny rule                 deny     deny          deny     deny     deny
//	2 an ask rule                 ask+S    ask+S         ask+S*   ask+S    deny+S
//	3 the call is read-only       allow    allow         allow    allow    allow
//	4 the tool's check denies     deny     deny          -        deny     deny
//	  the tool's check allows     allow    allow         -        allow    allow
//	  the tool's check asks, immune  ask+S ask+S         -        -        deny+S
//	  the tool's check lets no allow rule count  ask+S ask+S  -   -        deny
//	5 an allow rule               allow    allow         -        allow    allow
//	6 otherwise                   ask+S    ask+S         deny     allow    deny
//
// S means suggested rules, - means not consulted. The table is AgentScope's, with one difference:
// an ask rule never turns a denial by a rule, a tool or a mode into an approval request. What
// the tool's check denies in step 4 stays denied, and so does (*) in explore mode any call that is
// not proven read-only. So adding a deny or ask rule never loosens anything. If it is unknown
// before a line runs whether a deny or ask rule applies to it, the line is never allowed without
// an approval request; if a later step asks or denies, that step decides.
//
// # Failing closed
//
// A rule fails when its condition has a type error, a missing key, a result that is not a bool,
// or an unknown result; when it exceeds its cost or the deadline; when it panics; or when the
// input is not a JSON object within the limits or does not match the schema. Then:
//
//	rule or place                 effect
//	deny or ask rule              counts as matched: denies if on_error is deny, or if the rule is
//	                              locked and has no on_error of its own; else asks
//	allow rule                    does not match, and the mode's fallback does not allow: asks
//	a rule that hides arguments   hides them
//	a term of the vocabulary      fails the rules that use it
//	message of a rule             the description, or a standard text, takes its place
//	the tool's own check          asks, even in bypass mode
//	input, mode or context        nothing is allowed: asks; denies in explore, dont_ask and unknown modes
//	a rule at load                the whole new policy is refused, Live keeps the last good one
//	no policy yet                 everything except read-only tools is denied
//
// In dont_ask mode every ask becomes a deny, as does in explore mode every ask about a call that
// is not proven read-only. [Decision].Errors lists each failure.
//
// # Kinds of tools
//
// Package permission/agentscope has the kinds of AgentScope's tools; DEVIATIONS.md there says where
// they differ. A rule with content for a tool without a matcher is a load error; in AgentScope it
// never matches. A rule that means less than its author may expect gets a [Notice].
//
// # Concurrency
//
// Bundles, schemas and Live are safe for concurrent use. Deciding starts no goroutines and takes no
// locks, except for a short one where a shadow policy differs. Apart from the deadline of
// expensive expressions and the duration of a reload the package reads no clock, and only [Live],
// [Paths] and [Request.Resolve] read files.
//
// # What it does not do
//
// It does not ask people, count votes, remember answers or run tools; the engine does. A tool's
// Matcher or [Kind] defines the meaning of rule_content: package permission/agentscope has the
// kinds of AgentScope's tools, and permission/shell reads command lines. Authentication happens
// before: the program that fills in [Caller] vouches for it.
package permission
