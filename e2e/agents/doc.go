// Package agents tests the hooks with the published coding agents: make hooks-real
// installs Claude Code, Codex and Gemini CLI outside of the tree and runs them against a
// scripted model and a real askance serve process.
//
// The tests have the build tag realagents, because the programs come from npm and one of
// them is proprietary. They prove what the table in docs/howto/coding-agents.md says; the
// tests of gateway/agenthook and of the command need none of these programs.
package agents
