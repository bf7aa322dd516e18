package celrule

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// dearHint says what makes an expression dear: fields that may be long by their
// schema, or lists and maps that it does not describe.
func costHint(ast *cel.Ast, args *schema.Type) string {
	var long, open []string
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		path := argsPath(e)
		if args == nil || len(path) == 0 {
			return
		}
		t, name := args.At(path), "args."+strings.Join(path, ".")
		switch {
		case t == nil:
		case t.MaxLen > typicalSize:
			long = append(long, fmt.Sprintf("%s may have %d of them by its %s", name, t.MaxLen, t.SizeKeyword()))
		case t.MaxLen < 0 && (t.Kind == schema.KindList || t.Kind == schema.KindMap):
			open = append(open, name+" has no "+t.SizeKeyword())
		}
	}))
	found := append(long, open...)
	if len(found) == 0 {
		return "avoid loops within loops, and functions within them; or declare maxItems, maxLength and maxProperties in the tool's schema"
	}
	slices.Sort(found)
	return "work grows with characters and elements: " + strings.Join(slices.Compact(found), ", ") + "; declare less in the tool's schema, or do less with it"
}

// argsPath are the names of a selection that begins at args, plain or optional.
func argsPath(e celast.Expr) []string {
	switch e.Kind() {
	case celast.SelectKind:
		s := e.AsSelect()
		if s.Operand().Kind() == celast.IdentKind && s.Operand().AsIdent() == "args" {
			return []string{s.FieldName()}
		}
		if below := argsPath(s.Operand()); below != nil {
			return append(below, s.FieldName())
		}
	case celast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != "_?._" || len(call.Args()) != 2 || call.Args()[1].Kind() != celast.LiteralKind {
			return nil
		}
		name, ok := call.Args()[1].AsLiteral().Value().(string)
		if !ok {
			return nil
		}
		if on := call.Args()[0]; on.Kind() == celast.IdentKind && on.AsIdent() == "args" {
			return []string{name}
		}
		if below := argsPath(call.Args()[0]); below != nil {
			return append(below, name)
		}
	default:
	}
	return nil
}
