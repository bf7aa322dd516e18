// Package incident contains the files that `askance demo` plays: a recorded model
// stream, the policy and tools for it, and its workspace. README.md describes each of
// them.
package incident

import "embed"

// Files contains README.md, stream.sse, policy.yaml, tools.yaml and workspace.
//
//go:embed README.md stream.sse policy.yaml tools.yaml workspace
var Files embed.FS
