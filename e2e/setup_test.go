package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/e2e/internal/effect"
)

// The tools, with where they run and whether they are idempotent.
const (
	charge = "charge" // remote, idempotent
	mail   = "mail"   // remote, not idempotent
	note   = "note"   // local, idempotent
	post   = "post"   // local, not idempotent
	ledger = "ledger" // remote, idempotent, reads its input through its own pipe
	index  = "index"  // local, idempotent, reads its input through its own pipe
)

var allTools = []string{charge, mail, note, post}

// pipedTools are only for tests that request them, see world.tools.
var pipedTools = []string{ledger, index}

func idempotent(tool string) bool { return tool != mail && tool != post }
func local(tool string) bool      { return tool == note || tool == post || tool == index }

// toolsFile declares the tools. Their leases are short, so that dead owners are noticed soon. Tools
// that are not idempotent run serially within a proposal.
func toolsFile(effects string, tools []string) string {
	var b strings.Builder
	b.WriteString("version: 1\ntools:\n")
	for _, tool := range tools {
		placement := "remote"
		if local(tool) {
			placement = "local"
		}
		fmt.Fprintf(&b, `  - name: %s
    placement: %s
    idempotent: %t
    concurrency_safe: %t
    lease: %s
    offer_timeout: 2s
    max_attempts: 100
    backoff: 50ms
    input_schema:
      type: object
      required: [n, ask, forbid]
      additionalProperties: false
      properties:
        n: {type: integer}
        ask: {type: boolean}
        forbid: {type: boolean}
        before_ms: {type: integer}
        after_ms: {type: integer}
        pad: {type: string}
`, tool, placement, idempotent(tool), idempotent(tool), lease)
		if local(tool) {
			fmt.Fprintf(&b, "    command: [%s]\n", quotedList(toolCommand(tool, effects)))
		}
	}
	return b.String()
}

// toolCommand returns the command that runs a tool.
func toolCommand(tool, effects string) []string {
	kind := effect.Once
	if idempotent(tool) {
		kind = effect.Idempotent
	}
	argv := []string{bin.tool, effects, kind}
	if slices.Contains(pipedTools, tool) {
		// The shell dies with its parent, but this pipe continues without it.
		argv = append([]string{"sh", "-c", `cat | { sleep 0.03; exec "$@"; }`, "sh"}, argv...)
	}
	return argv
}

func quotedList(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return strings.Join(quoted, ", ")
}

// policyFile returns a policy that decides according to the input.
func policyFile(tools []string) string {
	var b strings.Builder
	b.WriteString("version: 1\nname: e2e\nrules:\n")
	for _, tool := range tools {
		fmt.Fprintf(&b, `  - {name: forbidden-%[1]s, tool_name: %[1]s, behavior: deny, when: args.forbid}
  - {name: asked-%[1]s, tool_name: %[1]s, behavior: ask, when: args.ask}
  - {name: allowed-%[1]s, tool_name: %[1]s, behavior: allow, when: "!args.ask && !args.forbid"}
`, tool)
	}
	return b.String()
}
