package permission_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const rules = `version: 1
name: payments
defaults: {expiry: 15m}
rules:
  - name: refund-cap
    tool_name: stripe.refund
    behavior: deny
    when: args.amount_cents > 500000
    message: "'Refunds above 5000 EUR are made by hand'"
  - name: refund-large
    tool_name: stripe.refund
    behavior: ask
    when: args.amount_cents > 50000
    message: "'Refund ' + string(args.amount_cents / 100) + ' EUR?'"
    approvers: {users: [fiona]}
  - name: refund-small
    tool_name: stripe.refund
    behavior: allow
`

// Rules are compiled together with the tools that they name, and then decide.
func Example() {
	schema, err := permission.CompileSchema([]byte(`{"type": "object", "required": ["amount_cents"],
		"properties": {"amount_cents": {"type": "integer", "minimum": 1}}}`))
	if err != nil {
		log.Fatal(err)
	}
	bundle, err := permission.Load(
		[]permission.File{{Name: "payments.yaml", Data: []byte(rules)}},
		permission.Options{Tools: []permission.Tool{{Name: "stripe.refund", Schema: schema}}},
	)
	if err != nil {
		log.Fatal(err)
	}
	for _, input := range []string{`{"amount_cents": 1999}`, `{"amount_cents": 60000}`, `{"amount_cents": 700000}`, `{"amount_cents": "1"}`} {
		d := bundle.Decide(context.Background(), permission.Request{Tool: "stripe.refund", Input: []byte(input)})
		fmt.Printf("%s %s by %q\n", input, d.Behavior, d.Rule)
		if d.Message != "" {
			fmt.Println("  " + d.Message)
		}
	}
	// Output:
	// {"amount_cents": 1999} allow by "refund-small"
	// {"amount_cents": 60000} ask by "refund-large"
	//   Refund 600 EUR?
	// {"amount_cents": 700000} deny by "refund-cap"
	//   Permission denied for stripe.refund (rule refund-cap: Refunds above 5000 EUR are made by hand).
	// {"amount_cents": "1"} ask by "refund-cap"
	//   stripe.refund needs approval: rule refund-cap could not be evaluated (the input cannot be evaluated).
	// stripe.refund needs approval: rule refund-large could not be evaluated (the input cannot be evaluated).
}

// All faults of all files are reported together, each with its place.
func ExampleLoad_problems() {
	_, err := permission.Load([]permission.File{{Name: "ops.yaml", Data: []byte(`version: 1
name: ops
rules:
  - name: no-prod
    tool_name: deploy
    behavior: deny
    when: |
      args.env == "prod" &&
        caler.user != "ann"
  - name: two-eyes
    tool_name: deploy
    behavior: ask
    quorum: 2
`)}}, permission.Options{})
	if refused, ok := errors.AsType[*permission.LoadError](err); ok {
		for _, p := range refused.Problems {
			fmt.Println(p)
		}
	}
	// Output:
	// ops.yaml:9:9: rule no-prod: when: undeclared reference to 'caler' (did you mean caller?)
	// ops.yaml:13:13: rule two-eyes: quorum: is not enforced yet (remove it; a key without effect would mislead)
}

// The zero value of a tool's verdict leaves the decision to the rules and the mode.
func ExampleTool_check() {
	tool := permission.Tool{Name: "write", Check: func(c permission.Call) permission.ToolVerdict {
		if c.Input["path"] == ".git/config" {
			return permission.ToolVerdict{Answer: permission.CheckAskImmune, Message: "it configures the repository"}
		}
		return permission.ToolVerdict{}
	}}
	bundle, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "writes", Tools: []string{"write"}, Behavior: "allow"},
	}}, permission.Options{Tools: []permission.Tool{tool}})
	if err != nil {
		log.Fatal(err)
	}
	for _, input := range []string{`{"path": "main.go"}`, `{"path": ".git/config"}`} {
		d := bundle.Decide(context.Background(), permission.Request{Tool: "write", Input: []byte(input)})
		fmt.Printf("%s: %s %q\n", input, d.Behavior, d.Message)
	}
	// Output:
	// {"path": "main.go"}: allow ""
	// {"path": ".git/config"}: ask "write needs approval: it configures the repository."
}

const managed = `version: 1
name: acme
rules:
  - name: no-prod
    tool: deploy
    behavior: deny
    when: args.env == "prod"
    locked: true
  - name: two-eyes
    tool: deploy
    behavior: ask
    approvers: {groups: [ops], exclude_requester: true}
`

const project = `version: 1
name: shop
disable: [two-eyes]
rules:
  - name: four-eyes
    tool: deploy
    behavior: ask
    approvers: {groups: [ops], exclude_requester: true}
    quorum: 2
    expiry: 1h
    redact: [args.token]
    message: "'Deploy ' + args.env + ' with ' + args.token + '?'"
`

// Files of a lower layer add rules and may replace rules that are not locked. The decision
// contains the requirements.
func ExampleLoad_layers() {
	bundle, err := permission.Load([]permission.File{
		{Name: "managed.yaml", Layer: permission.LayerManaged, Data: []byte(managed)},
		{Name: "project.yaml", Layer: permission.LayerProject, Data: []byte(project)},
	}, permission.Options{Enforced: []permission.Duty{permission.DutyGroups, permission.DutyExcludeRequester,
		permission.DutyQuorum, permission.DutyExpiry, permission.DutyRedact}})
	if err != nil {
		log.Fatal(err)
	}
	for _, env := range []string{"prod", "test"} {
		d := bundle.Decide(context.Background(), permission.Request{Tool: "deploy", Input: []byte(`{"env": "` + env + `", "token": "s3cret"}`)})
		fmt.Println(d.Behavior, "by", d.Rule, "of the layer", d.Layer)
		if d.Behavior == "ask" {
			fmt.Println(d.Message)
			fmt.Println(d.Requirement.Quorum, "people in", d.Requirement.Expiry, "hidden:", d.Redact)
			req := d.Requirement.Issue(time.Now())
			req.Requester = "bob"
			for _, name := range []string{"ann", "bob"} {
				fmt.Println(name, "may answer:", req.Accepts(toolcall.Vote{By: toolcall.Principal{Name: name}, Groups: []string{"ops"}}))
			}
		}
	}
	// Output:
	// deny by no-prod of the layer managed
	// ask by four-eyes of the layer project
	// Deploy test with [redacted]?
	// 2 people in 1h0m0s hidden: [args.token]
	// ann may answer: true
	// bob may answer: false
}

// Rules of the form Tool(specifier) are imported, or refused with a reason.
func ExampleFromSpecifiers() {
	opts := permission.Options{Tools: []permission.Tool{{Name: "Bash"}, {Name: "mail", Server: "post"}}}
	policy, err := permission.FromSpecifiers(permission.Specifiers{
		Allow: []string{"Bash(npm run build)", "mcp__post__mail"}, Deny: []string{"mcp__post__*"},
	}, opts)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range policy.Rules {
		fmt.Printf("%s %s when %q\n", r.Behavior, r.Tools, r.When)
	}
	_, err = permission.FromSpecifiers(permission.Specifiers{Allow: []string{"mcp__*", "Read(./src/**)"}}, opts)
	fmt.Println(err)
	// Output:
	// deny [post/*] when ""
	// allow [Bash] when "args.command == \"npm run build\""
	// allow [mail] when ""
	// policy refused, 2 problems
	// allow: mcp__*: a pattern over tool names would allow tools that no author has checked; list the tools, or name a server as mcp__server__*
	// allow: Read(./src/**): there is no tool Read
}
