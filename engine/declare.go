package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// declareTools checks the tool definitions of a proposal. For tools that the engine
// is configured with, its own configuration applies.
func (p *proposer) declareTools(r toolcall.ProposeRequest) ([]*toolcall.DeclaredTool, error) {
	var out []*toolcall.DeclaredTool
	names := map[string]bool{}
	for i, d := range r.Tools {
		at := fmt.Sprintf("tools[%d]", i)
		t, err := toolcall.Declare(d)
		if err != nil {
			return nil, errorAt(at, err)
		}
		if names[d.Name] {
			return nil, &message.Error{Code: message.CodeInvalid, What: at + ": the tool " + d.Name + " is declared twice", Hint: "declare each tool of a proposal once"}
		}
		names[d.Name] = true
		if _, known := p.tools[d.Name]; known {
			if err := p.checkExternal(at, d.Name); err != nil {
				return nil, err
			}
			continue
		}
		if def := p.definitions.compileDefinition(&t); def.Err != nil {
			return nil, &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("%s: the input_schema of the tool %s does not compile: %v", at, d.Name, def.Err), Hint: "correct the schema: it must be JSON Schema 2020-12, as in the tools file", Err: def.Err}
		}
		out = append(out, &t)
	}
	return out, nil
}

// defineTools gives the calls their tool definitions from the session. Definitions of an
// earlier proposal are read from the journal: another engine may have recorded them.
func (p *proposer) defineTools(ctx context.Context, session toolcall.SessionState, calls []*toolcall.Call) error {
	fresh := false
	for _, c := range calls {
		if _, known := p.tools[c.Tool]; known {
			continue
		}
		if c.Definition == nil && !fresh {
			last, _, err := p.store.LastSession(ctx, c.SessionKey())
			if err != nil {
				return err
			}
			if len(last.Tools) > len(session.Tools) {
				session = last
			}
			fresh = true
		}
		t := session.Newest(c.Tool)
		if c.Definition != nil {
			t = session.Tool(c.Definition.Hash)
		}
		if t != nil {
			c.Placement, c.Definition = toolcall.PlaceExternal, session.Ref(t)
		}
	}
	return nil
}

// placeCalls records within which call the calls of a proposal are made.
func (p *proposer) placeCalls(ctx context.Context, r toolcall.ProposeRequest, calls []*toolcall.Call) error {
	if r.Parent == nil {
		return nil
	}
	key := toolcall.Key{Space: p.space, Session: r.Parent.Session, Reply: r.Parent.Reply, Call: r.Parent.Call}
	if err := key.Validate(); err != nil {
		return errorAt("parent", err)
	}
	if key.ReplyKey() == calls[0].ReplyKey() {
		return &message.Error{Code: message.CodeInvalid, What: "parent: the call " + string(key.Call) + " belongs to the reply of the proposed calls", Hint: "give the calls that are made within a call a reply of their own"}
	}
	var parent *toolcall.Parent
	around, err := p.store.LastCall(ctx, key)
	if err == nil {
		switch parent, err = around.AsParent(); {
		case err == nil:
		case p.areKnown(ctx, calls): // a repeated proposal is answered with the state of its calls
			err = nil
		case around.Runtime == calls[0].Runtime:
			return errorAt("parent", err)
		default: // another runtime may not see the call's state
			err = message.ErrNotFound
		}
	}
	if errors.Is(err, message.ErrNotFound) {
		return &message.Error{Code: message.CodeNotFound, What: "parent: no call " + key.String() + " exists", Hint: "name the call that started the sub-agent, or leave parent out"}
	}
	if err != nil {
		return err
	}
	for _, c := range calls {
		c.Parent = parent
	}
	return nil
}

// areKnown reports whether all calls of a proposal were proposed before.
func (p *proposer) areKnown(ctx context.Context, calls []*toolcall.Call) bool {
	for _, c := range calls {
		if known, err := p.store.CallOrNil(ctx, c.Key); err != nil || known == nil {
			return false
		}
	}
	return true
}

// errorAt adds to an error the member of the request that caused it.
func errorAt(member string, err error) error {
	e := *message.AsError("", err)
	e.What = member + ": " + e.What
	return &e
}

// maxCompiled bounds the compiled definitions in memory.
const maxCompiled = 1024

// definitions compiles the tool definitions that runtimes declare.
type definitions struct {
	mu       sync.Mutex // guards compiled
	compiled map[string]permission.Definition
}

// compileDefinition returns a definition in the form that the policy reads. Its Err is set
// if the schema does not compile.
func (d *definitions) compileDefinition(t *toolcall.DeclaredTool) permission.Definition {
	if known, ok := d.find(t.Hash); ok {
		return known
	}
	out := permission.Definition{Hash: t.Hash, Claims: permission.Claims(t.Annotations)}
	if len(t.InputSchema) > 0 {
		out.Schema, out.Err = permission.CompileSchema(t.InputSchema)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.compiled == nil || len(d.compiled) >= maxCompiled {
		d.compiled = map[string]permission.Definition{}
	}
	d.compiled[t.Hash] = out
	return out
}

// find returns a definition that was compiled before.
func (d *definitions) find(hash string) (permission.Definition, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out, ok := d.compiled[hash]
	return out, ok
}

// definitionOf returns what the runtime declared about a call's tool, or nil, for the policy.
func (c *core) definitionOf(call *toolcall.Call) *permission.Definition {
	ref := call.Definition
	if ref == nil {
		return nil
	}
	out, ok := c.definitions.find(ref.Hash)
	if !ok {
		if t, err := c.declaredTool(c.ctx, call); t != nil {
			out = c.definitions.compileDefinition(t)
		} else {
			out = permission.Definition{Hash: ref.Hash, Err: errors.Join(errNoDefinition, err)}
		}
	}
	out.Changed = ref.Changed()
	return &out
}

// declaredTool returns the definition under which a call is decided, or nil if none is known.
func (c *core) declaredTool(ctx context.Context, call *toolcall.Call) (*toolcall.DeclaredTool, error) {
	if call.Definition == nil {
		return nil, nil
	}
	if t := c.view.Tool(call.Definition.Hash); t != nil {
		return t, nil
	}
	state, _, err := c.store.LastSession(ctx, call.SessionKey())
	return state.Tool(call.Definition.Hash), err
}

// errNoDefinition is the reason why the policy cannot see a tool's definition.
var errNoDefinition = errors.New("the definition of the tool is not in the journal")
