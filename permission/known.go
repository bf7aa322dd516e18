package permission

import "slices"

// unknownVariables are absent where the request does not say what they are.
var unknownVariables = []string{"caller.parent_agent", "caller.roles", "caller.run_id", "caller.tenant", "ctx.attempt", "ctx.calls_this_run"}

// MayBeMissing reports whether a variable, by its path in Variables, is absent
// where the request does not know it. A rule guards it as an optional field of
// args, or fails.
func MayBeMissing(path string) bool { return slices.Contains(unknownVariables, path) }
