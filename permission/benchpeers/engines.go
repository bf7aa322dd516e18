package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cedar-policy/cedar-go"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/askance-dev/askance/permission"
)

// engine decides calls of one tool. Answers are deny, allow and none.
type engine interface {
	// decide decides about the JSON text of an input.
	decide(input []byte) (string, error)
	// prepare converts an input to the engine's own form; ready decides about that.
	prepare(input []byte) (any, error)
	ready(v any) (string, error)
}

const schemaText = `{"type": "object", "required": ["command", "account", "size"], "properties": {
	"command": {"type": "string", "maxLength": 4096}, "account": {"type": "string", "maxLength": 100}, "size": {"type": "integer"}}}`

// ours is askance. It has no prepared form: each decision reads the JSON text strictly
// and checks it against the tool's schema.
type ours struct{ bundle *permission.Bundle }

func loadOurs(file string) (engine, error) {
	schema, err := permission.CompileSchema([]byte(schemaText))
	if err != nil {
		return nil, err
	}
	var opts permission.Options
	for i := range tools {
		opts.Tools = append(opts.Tools, permission.Tool{Name: toolOf(i), Schema: schema})
	}
	b, err := permission.Load([]permission.File{{Name: "bench.yaml", Data: []byte(file)}}, opts)
	return ours{b}, err
}

func (o ours) decide(input []byte) (string, error) {
	d := o.bundle.Decide(context.Background(), permission.Request{Tool: toolOf(0), Input: input, Mode: permission.ModeDefault})
	if len(d.Errors) > 0 {
		return "", d.Errors[0]
	}
	if d.Step == permission.StepFallbackAsk {
		return "none", nil
	}
	return string(d.Behavior), nil
}

func (o ours) prepare(input []byte) (any, error) { return input, nil }

func (o ours) ready(v any) (string, error) { return o.decide(v.([]byte)) }

type cedarEngine struct{ policies *cedar.PolicySet }

func loadCedar(file string) (engine, error) {
	p, err := cedar.NewPolicySetFromBytes("bench.cedar", []byte(file))
	return cedarEngine{p}, err
}

func (c cedarEngine) prepare(input []byte) (any, error) {
	var r cedar.Record
	if err := json.Unmarshal(input, &r); err != nil {
		return nil, err
	}
	return cedar.Request{
		Principal: cedar.NewEntityUID("Agent", "a"), Action: cedar.NewEntityUID("Action", "call"),
		Resource: cedar.NewEntityUID("Tool", cedar.String(toolOf(0))), Context: r,
	}, nil
}

func (c cedarEngine) ready(v any) (string, error) {
	d, diag := cedar.Authorize(c.policies, nil, v.(cedar.Request))
	switch {
	case len(diag.Errors) > 0:
		return "", fmt.Errorf("%v", diag.Errors)
	case len(diag.Reasons) == 0:
		return "none", nil
	case d == cedar.Allow:
		return "allow", nil
	default:
		return "deny", nil
	}
}

func (c cedarEngine) decide(input []byte) (string, error) {
	v, err := c.prepare(input)
	if err != nil {
		return "", err
	}
	return c.ready(v)
}

type opaEngine struct{ query rego.PreparedEvalQuery }

func loadOPA(file string) (engine, error) {
	q, err := rego.New(rego.Query("data.bench.decision"), rego.Module("bench.rego", file)).PrepareForEval(context.Background())
	return opaEngine{q}, err
}

func (o opaEngine) prepare(input []byte) (any, error) {
	var args map[string]any
	if err := json.Unmarshal(input, &args); err != nil {
		return nil, err
	}
	return ast.InterfaceToValue(map[string]any{"tool": toolOf(0), "args": args})
}

func (o opaEngine) ready(v any) (string, error) {
	set, err := o.query.Eval(context.Background(), rego.EvalParsedInput(v.(ast.Value)))
	if err != nil || len(set) == 0 {
		return "", fmt.Errorf("no result: %w", err)
	}
	return set[0].Expressions[0].Value.(string), nil
}

func (o opaEngine) decide(input []byte) (string, error) {
	v, err := o.prepare(input)
	if err != nil {
		return "", err
	}
	return o.ready(v)
}

// peer is an engine with its loader and the file it loads.
type peer struct {
	name string
	load func(string) (engine, error)
	file func(shape, int) string
}

var peers = []peer{
	{"askance", loadOurs, shape.askanceFile},
	{"cedar", loadCedar, shape.cedarFile},
	{"opa", loadOPA, shape.regoFile},
}
