// Package permission decides about tool calls: allow, deny, or ask a person.
//
// A policy is a set of rules, written as YAML or imported ([FromSpecifiers],
// [FromContext]). [Load] compiles rule files against the declared tools into a
// [Bundle], which is immutable and named by a hash of its content;
// [Bundle.Decide] answers one [Request] with a [Decision], and [Bundle.Explain]
// says why. [Live] holds the bundle in force and reloads it.
//
// People who write policies begin with docs/tutorials/policy.md and look up keys, variables,
// functions and lint codes in REFERENCE.md. Editors take policy.schema.json.
//
// # Rule files
//
//	version: 1
//	name: payments-prod            # the source of the rules below
//	rules:
//	  - name: refund-large         # unique; named in every decision
//	    tool: stripe.refund        # exact name, list of names, server/*, or "*"
//	    when: args.amount_cents > 50000
//	    behavior: ask              # deny, ask or allow
//	    approvers: {groups: [finance], exclude_requester: true}
//	    quorum: 2
//
// Only deny and ask rules may be about "*", and with content they are about files, whatever
// the tool ([PathKind]); one about server/* is about the
// declared tools of that server and, if it denies or asks, about undeclared ones
// whose names begin with mcp__server__, server. or server/.
//
// Keys are strict: what is unknown or given twice refuses the file, and so does
// any other fault in any rule; [LoadError] lists all of them with file, line
// and column. Tests in a file decide nothing; package permission/suite runs them.
// A [File] has a [Layer]; layers do not decide between rules: a file can only
// take out rules of higher layers by name, unless they are locked.
//
// # What rules require
//
// This package checks, joins and states in the [Decision] what rules require of
// approvers and of the run; others carry it out. What they do not carry out is a
// load error: see [Duty] and [Options].Enforced.
//
// All ask rules that match, or fail, ask together, as strictly as the strictest:
//
//	who            of rules that only list users, those on all lists; and of each
//	               rule with groups or an escalation the people whom it accepts
//	signed         if one rule says so
//	quorum         the highest; the requester is excluded if one rule says so
//	expiry         the shortest, or the policy's; then deny, unless all escalate
//	remember       nothing, unless all allow it: all scopes, the shortest time, the fewest uses
//
// If too few people are left the call is denied. Redact, executor and audit
// come from every rule that is about the call, also if another one decides: all that one
// of them hides is hidden, also in its texts, where [redacted] stands for it;
// the shortest timeout holds, and two different executors deny the call.
//
// A rule with enforcement warn or audit decides nothing: its matches are in
// [Decision].Watched.
//
// # Conditions
//
// when is a CEL expression of type bool, message one of type string, over args,
// tool, caller, ctx, cmd for tools of a [ShellKind], and the terms of the
// vocabulary. What a request does not know of its caller and run is absent: a
// rule that asks for it fails, unless it guards it with has() or args.?field.
//
// The language is CEL at fixed versions with [Functions] for paths and URLs, which
// refuse what programs read in several ways ([PathError], [URLError]). There are
// no clocks, files or networks: the same request gets the same answer. Symbolic
// links are followed before, by [Request.Resolve]. Integers keep their 64 bits;
// an input that would lose digits is refused, and so is one with a member that
// differs from a declared one in case alone.
//
// The cost of an expression is either proved at load to be small for every
// input that the schema admits, or measured and limited at run time ([Limits]).
// A part that compares a field with a constant, joined to the others by &&, is
// looked at first: where it is false the rule is passed over without CEL.
// Module permission/benchpeers has figures.
//
// # Precedence
//
// Deny outranks ask, ask outranks allow, in every order of rules, files and
// sources. Rules of the session ([Request].SessionRules) join those of
// the bundle. The first step that applies decides:
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
// S are suggested rules, - is not consulted. The table is AgentScope's, with one
// difference: an ask rule never turns a denial of a rule, a tool or a mode into an
// approval request. What the tool's check denies in step 4 stays denied, and so
// does (*) in explore mode what is not proven read-only. So no deny or ask rule
// that is added ever loosens anything. Where it is unknown before a line runs
// whether a deny or ask rule is about it, the line is never allowed without an
// approval request; if a later step asks or denies, that step answers.
//
// # Failing closed
//
// A rule fails when its condition has a type error, a missing key, a result
// that is not a bool, or is unknown; exceeds its cost or the deadline; panics;
// or when the input is no JSON object within the limits or does not fit the
// schema. Then:
//
//	rule or place                 effect
//	deny rule                     counts as matched: denies if locked or on_error is deny, else asks
//	ask rule                      counts as matched: asks; denies if on_error is deny
//	allow rule                    does not match, and the mode's fallback does not allow: asks
//	a rule that hides arguments   hides them
//	a term of the vocabulary      fails the rules that ask for it
//	message of a rule             the description, or a standard text, takes its place
//	the tool's own check          asks, in bypass mode too
//	input, mode or context        nothing is allowed: asks; denies in explore, dont_ask and unknown modes
//	a rule at load                the whole new policy is refused, Live keeps the last good one
//	no policy yet                 everything is denied but read-only tools
//
// In dont_ask mode every ask is a deny, and in explore every one about a call
// that is not proven read-only. [Decision].Errors lists each failure.
//
// # Kinds of tools
//
// A tool of a [Kind], such as a shell, has calls that are proven read-only, a
// check of its own, and rules with content. Package permission/agentscope has
// the kinds of AgentScope's tools and, in DEVIATIONS.md, where they differ. Allow
// rules may cover a call together, each a part of it ([JointMatcher]). A rule with
// content for a tool without a matcher is a load error; upstream lets it never
// match. What a rule means less than its author may expect is a [Notice].
//
// # Living policies
//
// [Live] reloads a policy while calls are decided and swaps it whole; every
// decision carries the hash of the bundle that made it. A bad policy raises an
// alarm and leaves the last good one in force. A [Live] can have a shadow, a
// candidate that decides nothing and whose differences [Live.Status] lists. A rule
// with enforcement warn or audit decides nothing; [Decision].Watched says that it
// matched.
//
// # Concurrency
//
// Bundles, schemas and Live may be used from any number of goroutines. Deciding
// starts none and takes no locks, but for a short one where a shadow policy
// differs. Apart from the deadline of expensive expressions and the time of a
// reload the package reads no clock; only [Live], [Paths] and [Request.Resolve]
// touch files.
//
// # What it does not do
//
// It does not ask people, count votes, remember answers or execute: that is
// the engine's. What a tool's rule_content means comes from its Matcher or
// [Kind]; package permission/agentscope has those of AgentScope's tools, and
// permission/shell reads command lines. Authentication is done before: the
// program that fills in [Caller] vouches for it.
//
// # Decisions
//
//   - Allow rules for commands admit what is listed. A list of dangerous options fails
//     open, because programs add some.
//   - An imported hint never permits anything. askance tools import writes
//     readOnlyHint and idempotentHint as comments, unless --trust-hints is given. It
//     takes definitions from the messages, because the MCP SDK reads numbers as
//     floats.
//   - The requester's groups are recorded with the call, because a later decision has
//     no credentials.
//   - AgentScope's tools are read more strictly where upstream runs what nothing
//     allows: DEVIATIONS.md. The binary does not contain the test oracle.
//   - A kind reads one argument, and says which. A guess by the argument's name fails
//     open.
//   - A deny on reading protects the file, not the tool. A key paths was rejected:
//     contents already mean files. A search or a line that may reach a protected file
//     is asked about; denying it would stop each search above a secret.
//   - dont_ask is default without approvers. AgentScope allows edits there.
//   - Several ask rules join as the strictest of them. A layer says who can remove
//     rules, never which rule wins.
//   - An unknown attribute is absent, not empty. A rule that needs it fails closed.
//   - Windows is not analysed: no parser of PowerShell or cmd.exe reads a line as
//     those shells do. A key of its own for the system was rejected, because a wrong
//     one would open what a missing one keeps closed.
//   - A rule file must show that it is whole. Size and time cannot: a copy that ran
//     out of disk is stable. People edit these files, so a checksum was rejected.
//   - A subfolder in a policy folder is an error. Reading it could enforce an archive;
//     ignoring it could leave out a deny rule.
//   - What a runtime declares of its tools is a claim. The definitions are in the
//     session's entity; a copy in each call would carry every schema.
//   - A parent ends its nested calls through the party that runs it. A sub-agent may
//     outlive the call that started it.
package permission
