// Package permission decides about tool calls: allow, deny, or ask a person.
//
// A policy is a set of rules, written as YAML or imported from AgentScope.
// [Load] compiles rule files against the declared tools into a [Bundle], which
// is immutable and named by a hash of its content; [Bundle.Decide] answers one
// [Request] with a [Decision]. [Live] holds the bundle in force and reloads it.
//
// # Rule files
//
//	version: 1
//	name: payments-prod            # the source of the rules below
//	defaults:
//	  mode: default                # for requests that name no mode
//	  on_error: ask                # or deny; for deny and ask rules
//	  expiry: 15m                  # of questions; then the call is denied
//	rules:
//	  - name: refund-large         # unique; stands in every decision
//	    description: Refunds above 500 EUR need finance.
//	    tool_name: stripe.refund   # exact name, list of names, or "*"
//	    when: args.amount_cents > 50000 && args.currency == "EUR"
//	    behavior: ask              # deny, ask or allow
//	    message: "'Refund ' + string(args.amount_cents / 100) + ' EUR?'"
//	    approvers: {users: [fiona, frank]}   # none: any approver
//	    expiry: 30m
//
// Further keys of a rule are rule_content (text that the tool's [Matcher]
// understands; null or "" match every call), source, on_error and locked. Only
// deny and ask rules may be about "*". Keys are strict: what is unknown, given
// twice, or known but not enforced yet refuses the file. So does any other
// fault in any rule; [LoadError] lists all of them with file, line and column.
//
// # Conditions
//
// when is a CEL expression of type bool, message one of type string, over
//
//	args    the input; typed by the tool's JSON Schema if it has one
//	tool    name, server, schema_hash, annotations.{read_only, destructive, idempotent, open_world}
//	caller  agent, user, space, session, reply, roles
//	ctx     mode, now, cwd, working_dirs
//
// with CEL's standard library, optional values (args.?note.orValue("")) and the
// strings, lists, sets, math, network, regex, bindings and two-variable
// comprehension extensions at fixed versions. There are no clocks, files or
// networks: the same request gets the same answer. Integers keep their 64 bits,
// an input that would lose digits is refused, a field that is absent is an
// error unless the rule guards it with has() or args.?field. Fields that the
// schema does not name are reached with dyn(args). With a rule for "*" args is
// an untyped map.
//
// The cost of an expression is either proved at load to be small for every
// input that the schema admits, or measured and limited at run time ([Limits]).
//
// # Precedence
//
// Deny outranks ask, ask outranks allow, whatever the order, the files and the
// sources. Rules of the session ([Request].SessionRules) stand beside those of
// the bundle. The first step that applies decides:
//
//	step                          default  accept_edits  explore  bypass   dont_ask
//	1 a deny rule                 deny     deny          deny     deny     deny
//	2 an ask rule                 ask+S    ask+S         ask+S    ask+S    deny+S
//	3 the tool is read-only       allow    allow         allow    allow    allow
//	4 the tool's check denies     deny     deny          -        deny     deny
//	  the tool's check allows     allow    allow         -        allow    allow
//	  the tool's check asks, immune  ask+S ask+S         -        -        deny+S
//	5 an allow rule               allow    allow         -        allow    allow
//	6 otherwise                   ask+S    ask+S         deny     allow    deny
//
// S are suggested rules, - is not consulted. The table is AgentScope's. Note
// that a person who answers the question of an ask rule is asked in place of
// the tool's own check and of explore's denial.
//
// All ask rules that match ask together: the approvers are those whom each of
// them accepts, the expiry is the shortest, and if nobody is left the call is
// denied.
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
//	message of a rule             the description, or a standard text, takes its place
//	the tool's own check          asks, in bypass mode too
//	input, mode or context        nothing is allowed: asks; denies in explore, dont_ask and unknown modes
//	a rule at load                the whole new policy is refused, Live keeps the last good one
//	no policy yet                 everything is denied but read-only tools
//
// In dont_ask mode every ask is a deny. [Decision].Errors lists each failure.
//
// # Differences from AgentScope
//
// A rule with content for a tool without a matcher is a load error; upstream
// lets it never match, so that a deny rule silently does nothing
// ([Options].StrictAgentScope restores this). Bad input is never allowed.
//
// # Concurrency
//
// Bundles, schemas and Live may be used from any number of goroutines. Deciding
// starts none and takes no locks. Apart from the deadline of expensive
// expressions the package reads no clock; only [Live] and [Paths] touch files.
//
// # What it does not do
//
// It does not ask anybody, remember answers, count, or execute: that is the
// engine's. It knows no shell and no paths: what a tool's rule_content means
// comes from its Matcher. Authentication is done before: whoever fills in
// [Caller] vouches for it.
package permission
