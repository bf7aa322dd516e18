package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// waitTool is the synthetic tool that returns the result of a held call.
const waitTool = "askance_wait"

// toolList is the last list of an upstream's tools.
type toolList struct {
	tools []*tool
	last  object // the last page
	until time.Time
}

type tool struct {
	up         *Upstream
	name       string // at the upstream
	definition object
	hash       string
}

// hashOf returns the digest of a definition. A changed definition is a new tool.
func hashOf(definition []byte) string {
	canonical, err := jcs.Canonicalize(definition)
	if err != nil { // such as a number that no double can hold: use the bytes as they are
		canonical = definition
	}
	return message.Digest(canonical)
}

var errSlow = fmt.Errorf("the MCP server did not list its tools within %s", connectTime)

// maxNameBytes bounds the name of a tool, as the protocol does.
const maxNameBytes = 128

// readTools returns the tools of the server, and reads them again if they may have changed.
func (l *link) readTools(ctx context.Context, again bool) (*toolList, error) {
	l.mu.Lock()
	list := l.tools
	l.mu.Unlock()
	if list != nil && !again && time.Now().Before(list.until) {
		return list, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectTime, errSlow) // a call waits for it before it is held
	defer cancel()
	items, last, err := l.listPages(ctx, "tools/list", "tools")
	if err != nil {
		return nil, err
	}
	list = &toolList{last: last, until: time.Now().Add(24 * time.Hour)} // until list_changed or a restart
	if l.modern {
		ms, _ := strconv.Atoi(string(last.get("ttlMs"))) // what is not a number is 0
		list.until = time.Now().Add(min(time.Duration(max(ms, 0))*time.Millisecond, time.Hour))
	}
	seen := map[string]bool{}
	for _, item := range items {
		o := objectOf(bytes.Clone(item))
		name := o.text("name")
		_, valid := paramHeaders(o.get("inputSchema"), nil)
		switch {
		case name == "" || seen[name] || len(l.up.clientName(name)) > maxNameBytes || l.up.clientName(name) == waitTool || strings.ContainsFunc(name, toolcall.IsHidden):
			l.log.Warn("left out a tool: its name is empty, taken or too long, or has hidden characters", "tool", name)
			continue
		case !valid:
			l.log.Warn("left out a tool: an x-mcp-header of its schema is invalid", "tool", name)
			continue
		}
		seen[name] = true
		list.tools = append(list.tools, &tool{up: l.up, name: name, definition: o, hash: hashOf(item)})
	}
	l.mu.Lock()
	l.tools = list
	l.mu.Unlock()
	return list, nil
}

func (l *link) forgetTools() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tools = nil
}

// findTool returns the definition of a tool, or nil if the server has none. If fresh, it asks the
// server, which need not tell when a definition changes.
func (l *link) findTool(ctx context.Context, name string, fresh bool) (*tool, error) {
	for _, again := range []bool{fresh, true} {
		list, err := l.readTools(ctx, again)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(list.tools, func(t *tool) bool { return t.name == name }); i >= 0 {
			return list.tools[i], nil
		}
	}
	return nil, nil //nolint:nilnil // documented
}

func (t *tool) clientName() string { return t.up.clientName(t.name) }

// declaration is the definition as the policy sees it. Its hash changes with each part
// of the definition that a model reads.
func (t *tool) declaration() toolcall.ToolDefinition {
	hints := objectOf(t.definition.get("annotations"))
	is := func(name, unsaid string) bool {
		if value := hints.get(name); value != nil {
			return string(value) == "true"
		}
		return unsaid == "true"
	}
	d := toolcall.ToolDefinition{
		Name: t.clientName(), Description: t.definition.text("description"), InputSchema: t.definition.get("inputSchema"),
		Annotations: toolcall.ToolAnnotations{ReadOnly: is("readOnlyHint", "false"), Destructive: is("destructiveHint", "true"), Idempotent: is("idempotentHint", "false"), OpenWorld: is("openWorldHint", "true")},
	}
	if title := t.definition.text("title"); title != "" {
		d.Description = strings.TrimSpace(title + "\n" + d.Description)
	}
	if _, err := jcs.Canonicalize(d.InputSchema); err != nil { // such as a bound that no double can hold
		d.Description, d.InputSchema = strings.TrimSpace(d.Description+"\nschema "+hashOf(d.InputSchema)), nil
	}
	return d
}

// isDecided reports whether the call was decided under this definition.
func (t *tool) isDecided(call *toolcall.Call) bool {
	d, err := toolcall.Declare(t.declaration())
	return err == nil && (call.DefinitionHash() == d.Hash || call.DefinitionHash() == "")
}

// isIdempotent reports whether the tool may run again after a lost answer.
func (t *tool) isIdempotent() bool {
	if slices.Contains(t.up.Idempotent, t.name) {
		return true
	}
	hints := objectOf(t.definition.get("annotations"))
	return t.up.TrustAnnotations && (string(hints.get("idempotentHint")) == "true" || string(hints.get("readOnlyHint")) == "true")
}

// waitDefinition is the wait tool as clients see it.
var waitDefinition = json.RawMessage(`{"name":"askance_wait","title":"Wait for a held tool call","description":"Waits for a tool call that a person has to approve, and returns its result. Call it with the id that the held call returned. Do not call the original tool again.","inputSchema":{"type":"object","properties":{"call":{"type":"string","description":"The id of the held call."}},"required":["call"]},"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`)

func (p *peer) listTools(ctx context.Context) (json.RawMessage, error) {
	links, err := p.all()
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	var result object
	ttl, scope := -1, "public"
	for _, l := range links {
		if !l.has("tools") && len(links) > 1 {
			continue
		}
		list, err := l.readTools(ctx, true)
		if err != nil {
			if len(links) == 1 {
				return nil, err
			}
			l.log.Warn("cannot list the tools", "error", err)
			continue
		}
		for _, t := range list.tools {
			items = append(items, t.forClient(p))
		}
		ms, _ := strconv.Atoi(string(list.last.get("ttlMs"))) // what is not a number is 0
		if ttl < 0 || ms < ttl {
			ttl = ms
		}
		if list.last.text("cacheScope") != "public" {
			scope = "private"
		}
		if len(links) == 1 {
			result = list.last
		}
	}
	if !p.g.cfg.NoWaitTool {
		items = append(items, waitDefinition)
	}
	result = result.without("nextCursor", "resultType").with("tools", arrayOf(items))
	if p.modern {
		result = result.with("ttlMs", intID(int64(max(ttl, 0)))).with("cacheScope", quote(scope))
	}
	return result.bytes(), nil
}

// forClient returns the definition with the client's name for it, and without its outputSchema:
// clients refuse other results, and a held call or a person's response fits no schema. Tools that
// a legacy client may call as tasks say so.
func (t *tool) forClient(p *peer) json.RawMessage {
	o := t.definition.without("outputSchema")
	if t.up.Alias != "" {
		o = o.with("name", quote(t.clientName()))
	}
	if !p.modern && p.version == legacyNewest {
		o = o.without("execution")
		if p.can("tasks") {
			o = o.with("execution", []byte(`{"taskSupport":"optional"}`))
		}
	}
	return o.bytes()
}
