// Package incident holds the files that `askance demo` plays: a recorded model
// stream, the policy and the tools that it meets, and the workspace it works
// in. README.md says what each is.
package incident

import "embed"

// Files has README.md, stream.sse, policy.yaml, tools.yaml and workspace.
//
//go:embed README.md stream.sse policy.yaml tools.yaml workspace
var Files embed.FS
