package askance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/permission"
)

// Tool is a Go function that an [App] runs when a call of it is allowed. [Func] makes one.
type Tool struct {
	engine.Tool
	run executor.Handler
	err error // why it cannot be used; Open reports it
}

// Func makes a tool from a Go function. The schema of its input is made from In, a struct: a
// field is required unless its json tag says omitempty or omitzero, its jsonschema tag is its
// description, and other members are refused.
//
// The function must return soon after its context ends. Its result goes to the model: a string
// or an [executor.Output] unchanged, everything else as JSON. Its error becomes the result of
// the call, see [ErrFailed].
func Func[In, Out any](name, description string, run func(context.Context, In) (Out, error), opts ...ToolOption) Tool {
	t := Tool{Tool: engine.Tool{Tool: permission.Tool{Name: name}, Description: description, ConcurrencySafe: true}}
	if run == nil {
		t.err = errors.New("the function is nil")
		return t
	}
	t.run = func(ctx context.Context, task executor.Task) (executor.Output, error) {
		var in In
		if err := task.Decode(&in); err != nil {
			return executor.Output{}, err
		}
		out, err := run(context.WithValue(ctx, taskKey{}, task), in)
		if err != nil {
			return executor.Output{}, err
		}
		return outputOf(out)
	}
	for _, o := range opts {
		o(&t)
	}
	if t.Schema == nil && t.err == nil {
		t.Schema, t.err = schemaOf[In]()
	}
	return t
}

// schemaOf makes the schema of a function's input from its type.
func schemaOf[In any]() (*permission.Schema, error) {
	typ := reflect.TypeFor[In]()
	if typ.Kind() != reflect.Struct {
		return nil, fmt.Errorf("the input is a %s: use a struct, or give the schema with Schema", typ)
	}
	s, err := jsonschema.ForType(typ, nil)
	if err != nil {
		return nil, fmt.Errorf("the input %s has no JSON Schema: %w", typ, err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("the input %s has no JSON Schema: %w", typ, err)
	}
	return permission.CompileSchema(raw)
}

func outputOf(v any) (executor.Output, error) {
	switch v := v.(type) {
	case executor.Output:
		return v, nil
	case string:
		return executor.Text(v), nil
	}
	raw, err := json.Marshal(v)
	if err != nil { // the tool has had its effect, so the error must say so
		return executor.Output{}, fmt.Errorf("the tool has run, but its output has no JSON form: %w", err)
	}
	return executor.Text(string(raw)), nil
}

// ToolOption changes a tool.
type ToolOption func(*Tool)

// ReadOnly says that the tool changes nothing with any input. Its calls are allowed
// unless a rule denies them or requires approval.
func ReadOnly() ToolOption { return func(t *Tool) { t.ReadOnly = true } }

// Idempotent says that the tool honours the idempotency key of [TaskFrom]: an attempt that was
// cut off by a crash is tried again with the same key.
func Idempotent() ToolOption { return func(t *Tool) { t.Idempotent = true } }

// Destructive says that the tool can destroy something. Rules can read it.
func Destructive() ToolOption { return func(t *Tool) { t.Destructive = true } }

// OpenWorld says that the tool reaches beyond this system. Rules can read it.
func OpenWorld() ToolOption { return func(t *Tool) { t.OpenWorld = true } }

// Summary sets the line that says what a call does, with arguments in braces, such as
// "Refund {cents} cents of order {order}". Without it, the arguments are listed.
func Summary(template string) ToolOption { return func(t *Tool) { t.Tool.Summary = template } }

// Timeout bounds the run of one attempt.
func Timeout(d time.Duration) ToolOption { return func(t *Tool) { t.Timeout = d } }

// Schema replaces the schema that is made from the function's input type.
func Schema(raw string) ToolOption {
	return func(t *Tool) { t.Schema, t.err = permission.CompileSchema([]byte(raw)) }
}

type taskKey struct{}

// TaskFrom returns the attempt that a function runs: the ids of its call, its
// idempotency key, and where its progress goes. ctx is that of the function.
func TaskFrom(ctx context.Context) (task executor.Task, ok bool) {
	task, ok = ctx.Value(taskKey{}).(executor.Task)
	return task, ok
}

// Definition is what a model is told about a tool.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

func (t Tool) definition() Definition {
	return Definition{Name: t.Name, Description: t.Description, InputSchema: t.Schema.JSON()}
}
