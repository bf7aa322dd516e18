// Package replay reads a session's AgentScope events and rebuilds messages from
// them alone, as any frontend does.
package replay
