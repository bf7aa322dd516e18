package permission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// ArgumentKind is a Kind that reads one argument of each call: the command line or the path. Rules
// with content look only at that argument.
type ArgumentKind interface {
	Kind
	Argument() Argument
}

// Argument describes what an ArgumentKind reads.
type Argument struct {
	Name string
	What string // "command" or "path"
	// Default says that a call without the argument means the current folder.
	Default bool
	// Others are further arguments of such tools that name neither a command nor a path.
	Others []string
}

// CheckKind returns an error if the tool's kind reads an argument that the tool's schema does not
// declare, because no rule would ever match a call. An OpaqueKind on a read-only tool is also an
// error.
func (t *Tool) CheckKind() error {
	if _, opaque := t.Kind.(OpaqueKind); opaque && t.ReadOnly {
		return errors.New("read_only: askance cannot analyse what a Windows shell runs; remove read_only, and allow calls by rules with when")
	}
	k, ok := t.Kind.(ArgumentKind)
	root := t.Schema.root()
	if !ok || root == nil || root.Kind != schema.KindStruct {
		return nil // checked for each call, because the schema does not say
	}
	a := k.Argument()
	field := root.Fields[a.Name]
	switch {
	case field != nil && isText(field):
		return nil
	case field != nil:
		return fmt.Errorf("kind: the argument %s is not text in input_schema, and the kind reads the %s from it; declare it as {type: string}, or set argument to the name of the one that has the %s",
			display.Quoted(a.Name), a.What, a.What)
	}
	var texts []string
	for name, f := range root.Fields {
		if isText(f) && !slices.Contains(a.Others, name) {
			texts = append(texts, name)
		}
	}
	slices.Sort(texts)
	switch {
	case len(texts) == 0 && a.Default:
		return nil // the current folder, unless a call has something undeclared
	case len(texts) == 0:
		return fmt.Errorf("kind: the kind reads the %s from the argument %s, which input_schema does not declare; declare it as {type: string}, or remove the kind",
			a.What, display.Quoted(a.Name))
	case len(texts) == 1:
		return fmt.Errorf("kind: the kind reads the %s from the argument %s, which input_schema does not declare; write argument: %s",
			a.What, display.Quoted(a.Name), display.Quoted(texts[0]))
	}
	return fmt.Errorf("kind: the kind reads the %s from the argument %s, which input_schema does not declare; set argument to the one that has the %s: %s",
		a.What, display.Quoted(a.Name), a.What, display.Quoted(strings.Join(texts, ", ")))
}

func isText(t *schema.Type) bool {
	switch t.Kind {
	case schema.KindInt, schema.KindDouble, schema.KindBool, schema.KindList, schema.KindMap, schema.KindStruct:
		return false
	default:
		return true // text, or not specified by the schema
	}
}

// errNoArgument says that a call may name its command or path in a way that the kind does not read.
var errNoArgument = fmt.Errorf("%w: the call lacks the argument that the tool's kind reads", ErrUnclear)

// findArgument returns errNoArgument if the call lacks its kind's argument and has another one that
// could stand for it. No rule can judge such a call.
func (e *evaluation) findArgument() error {
	a := argumentOf(e.tr.tool)
	if a.Name == "" || e.call.Input[a.Name] != nil {
		return nil
	}
	for name, value := range e.call.Input {
		if mayName(value) && !slices.Contains(a.Others, name) && !(a.Default && e.tr.declares(name)) {
			return fmt.Errorf("%w: %s", errNoArgument, display.Quoted(a.Name))
		}
	}
	return nil
}

func argumentOf(t *Tool) Argument {
	if t == nil {
		return Argument{}
	}
	if k, ok := t.Kind.(ArgumentKind); ok {
		return k.Argument()
	}
	return Argument{}
}

// declares reports whether the tool's schema has a member of that name. CheckKind leaves the
// meaning of such members to the author.
func (t *toolRules) declares(name string) bool {
	root := t.schema().root()
	return root != nil && root.Fields[name] != nil
}

func mayName(value any) bool {
	switch v := value.(type) {
	case string:
		return v != ""
	case []any, map[string]any:
		return true
	default:
		return false
	}
}
