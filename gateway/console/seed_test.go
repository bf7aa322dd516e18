package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/agentscope"
	"github.com/askance-dev/askance/toolcall"
)

// seedRules is the policy of a seeded world.
const seedRules = `version: 1
name: acme-production
description: Reading is free. Money, releases and commands on servers need a person.
defaults: {expiry: 4h}
rules:
  - {name: read-anything, tool: [Read, search_orders], behavior: allow}
  - name: no-destruction
    tool: Bash
    behavior: deny
    locked: true
    when: args.command.contains("rm -rf")
    message: '"no agent deletes folders: " + args.command'
  - {name: tests-run-freely, tool: Bash, behavior: allow, when: 'args.command.startsWith("go test ")'}
  - {name: commands, tool: Bash, behavior: ask, when: '!args.command.startsWith("go test ")', approvers: {groups: [ops]}}
  - {name: small-refunds, tool: refund, behavior: allow, when: 'args.amount_cents <= 5000'}
  - name: refunds-over-limit
    tool: refund
    behavior: ask
    when: args.amount_cents > 5000
    expiry: 25m
    message: '"Refund " + "%.2f".format([double(args.amount_cents) / 100.0]) + " " + args.currency + " for order " + args.order_id + " (" + args.reason + ")"'
    remember: {scope: [args.currency], ttl: 720h}
  - {name: release, tool: deploy_service, behavior: ask, quorum: 2, approvers: {groups: [ops]}, expiry: 45m}
  - {name: edits, tool: Write, behavior: ask}
  - {name: outside-mail, tool: send_email, behavior: ask, redact: [args.api_key]}
  - {name: reports, tool: build_report, behavior: allow}
  - {name: free, tool: [frail, slow, job], behavior: allow}
`

// seedTools returns tools like those of real agents.
func seedTools(t testing.TB) []engine.Tool {
	t.Helper()
	tool := func(name, about, schema string, change func(*engine.Tool)) engine.Tool {
		out := engine.Tool{Tool: permission.Tool{Name: name}, Description: about, Placement: toolcall.PlaceLocal, ConcurrencySafe: true}
		if schema != "" {
			s, err := permission.CompileSchema([]byte(schema))
			if err != nil {
				t.Fatalf("schema of %s: %v", name, err)
			}
			out.Schema = s
		}
		if change != nil {
			change(&out)
		}
		return out
	}
	kind := func(name string) func(*engine.Tool) {
		return func(of *engine.Tool) {
			k, err := agentscope.New(name, agentscope.Config{Home: "/home/dev"})
			if err != nil {
				t.Fatalf("kind %s: %v", name, err)
			}
			of.Kind, of.Destructive = k, name != "read"
		}
	}
	return []engine.Tool{
		tool("Bash", "Runs a command in a shell.", `{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`, kind("bash")),
		tool("Write", "Writes a file.", `{"type":"object","properties":{"file_path":{"type":"string"},"content":{"type":"string"}},"required":["file_path","content"]}`, kind("write")),
		tool("Read", "Reads a file.", `{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}`, kind("read")),
		tool("refund", "Refunds an order.", `{"type":"object","properties":{"order_id":{"type":"string"},"amount_cents":{"type":"integer","minimum":1},"currency":{"type":"string"},"reason":{"type":"string"}},"required":["order_id","amount_cents","currency","reason"]}`, func(of *engine.Tool) { of.Destructive = true }),
		tool("deploy_service", "Puts a version of a service into production.", `{"type":"object","properties":{"service":{"type":"string"},"version":{"type":"string"},"canary_percent":{"type":"integer"}},"required":["service","version"]}`, func(of *engine.Tool) { of.Destructive = true }),
		tool("send_email", "Sends an e-mail to a customer.", `{"type":"object","properties":{"to":{"type":"string"},"subject":{"type":"string"},"api_key":{"type":"string"}},"required":["to","subject"]}`, func(of *engine.Tool) { of.OpenWorld = true }),
		tool("search_orders", "Finds orders of a customer.", `{"type":"object","properties":{"customer":{"type":"string"}},"required":["customer"]}`, func(of *engine.Tool) { of.ReadOnly = true }),
		tool("build_report", "Builds a report on a worker.", `{"type":"object","properties":{"month":{"type":"string"}},"required":["month"]}`, func(of *engine.Tool) { of.Placement = toolcall.PlaceRemote }),
	}
}

// seeded returns a world whose journal looks like a day of two agents: calls that ran or were
// denied, rejected, edited or delegated, three queued reports without a worker, a blocked call,
// and open requests. Its people have names in several scripts. Tests best open a tab as Ann
// (approver) or Olga (operator).
func seeded(t *testing.T, opts ...gatewaytest.Option) *gatewaytest.World {
	t.Helper()
	w := world(t, append([]gatewaytest.Option{gatewaytest.Policy(seedRules), gatewaytest.Tools(seedTools(t)...)}, opts...)...)
	seed(w)
	return w
}

func seed(w *gatewaytest.World) {
	s := w.A
	n := 0
	propose := func(session, tool, input string) toolcall.Key {
		n++
		agent := map[string]string{"support-4711": "support-bot", "release-2026-48": "release-bot"}[session]
		return s.ProposeAs(agent, session, fmt.Sprintf("run-%d", n), fmt.Sprintf("call-%d", n), tool, input).Key
	}
	const support, release = "support-4711", "release-2026-48"
	for _, customer := range []string{"c-1042", "c-2210", "c-3175"} {
		s.Finished(propose(support, "search_orders", `{"customer":"`+customer+`"}`))
	}
	s.Finished(propose(support, "refund", `{"order_id":"o-77120","amount_cents":1900,"currency":"EUR","reason":"parcel lost"}`))
	s.Finished(propose(release, "Bash", `{"command":"go test ./checkout/..."}`))
	s.Finished(propose(release, "Bash", `{"command":"rm -rf /var/lib/checkout"}`))
	for _, month := range []string{"2026-09", "2026-10", "2026-11"} {
		propose(support, "build_report", `{"month":"`+month+`"}`)
	}
	approve := func(name string, k toolcall.Key) { s.Approve(name, k); s.Finished(k) }
	approve(gatewaytest.Ann, propose(support, "refund", `{"order_id":"o-77184","amount_cents":12900,"currency":"EUR","reason":"wrong size, returned"}`))
	approve("Åsa Ünal", propose(support, "refund", `{"order_id":"o-77190","amount_cents":8400,"currency":"EUR","reason":"arrived broken"}`))
	s.Reject("Ольга Петрова", propose(support, "refund", `{"order_id":"o-76003","amount_cents":64900,"currency":"EUR","reason":"customer is unhappy"}`), "Ask the customer for a picture first.")
	approve("李小龙", propose(support, "send_email", `{"to":"maria@example.com","subject":"Your refund is on its way","api_key":"sk-live-51H"}`))
	edited := `{"file_path":"/srv/checkout/config.yaml","content":"retries: 3\ntimeout: 10s\n"}`
	k := propose(release, "Write", `{"file_path":"/srv/checkout/config.yaml","content":"retries: 30\n"}`)
	s.SubmitResponse(gatewaytest.Ann, toolcall.Response{Key: k, Kind: toolcall.ResponseApprove, Input: &edited})
	s.Finished(k)
	k = propose(release, "deploy_service", `{"service":"search","version":"5.0.1","canary_percent":10}`)
	s.Approve(gatewaytest.Bob, k)
	approve(gatewaytest.Ann, k)
	s.Lose(release, "run-lost", "call-lost")

	propose(support, "refund", `{"order_id":"o-77231","amount_cents":24950,"currency":"EUR","reason":"charged twice"}`)
	propose(release, "Bash", `{"command":"kubectl -n shop rollout restart deployment/checkout"}`)
	s.Approve(gatewaytest.Bob, propose(release, "deploy_service", `{"service":"checkout","version":"1.42.0","canary_percent":5}`))
	propose(release, "Write", `{"file_path":"/srv/checkout/feature-flags.json","content":"{\n  \"express\": true,\n  \"wallet\": false\n}\n"}`)
	propose(support, "send_email", `{"to":"joão@example.com","subject":"Sorry about the late parcel","api_key":"sk-live-51H"}`)
	propose(support, "refund", `{"order_id":"o-77240","amount_cents":5900,"currency":"USD","reason":"item missing"}`)
}

// TestSeeded checks every page with realistic data.
func TestSeeded(t *testing.T) {
	w := seeded(t)
	b := open(t, w, gatewaytest.Ann)
	if open := len(w.A.Open()); open != 6 {
		t.Errorf("%d open requests, want 6", open)
	}
	for _, path := range []string{"/", "/inbox", "/standing", "/insights", "/find?q=refund"} {
		b.goTo(path)
		name, _, _ := strings.Cut(strings.Trim(path, "/"), "?")
		b.accessible("page-" + name)
		b.whole("page-" + name)
	}
	b.expect("404")
	b.do(chromedp.Navigate(w.URL + "/none"))
	b.see("Page not found", "Open the console")
	b.accessible("error")
}
