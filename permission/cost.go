package permission

import (
	"strings"

	"cel.dev/cel-go/cel"
	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
)

// typicalSize is the size at which text and lists without a declared limit are
// taken when a rule's cost is judged at load. A rule that is too expensive at
// this size is refused; one that is only too expensive on a huge input is
// stopped at run time.
const typicalSize = 256

// sizeHints tells the cost estimator how large the variables can get.
type sizeHints struct {
	args      *argType // nil: nothing is declared
	unlimited uint64   // size of what has no declared limit
	// bound is how large any text or list can be at all: each character or
	// element takes at least one byte of the input.
	bound uint64
}

var _ cost.Estimator = sizeHints{}

// EstimateCallCost leaves the cost of functions to cel-go.
func (sizeHints) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// EstimateSize gives the size of a variable or of something inside one.
func (h sizeHints) EstimateSize(node cost.AstNode) *cost.SizeEstimate {
	path := node.Path()
	if len(path) == 0 {
		return nil
	}
	size := h.unlimited
	switch t := h.variable(path[0]).at(path[1:]); {
	case t == nil && strings.HasPrefix(path[len(path)-1], "@"):
		// The estimator probes what is not declared for its structure; any
		// answer would make it look ever deeper.
		return nil
	case t != nil && t.maxLen >= 0:
		size = min(uint64(t.maxLen), h.bound)
	case t != nil && t.usual > 0 && h.unlimited == typicalSize:
		size = uint64(t.usual)
	}
	return &cost.SizeEstimate{Min: 0, Max: size}
}

// variable is the declared type of a variable, nil if there is none.
func (h sizeHints) variable(name string) *argType {
	if name == "args" {
		return h.args
	}
	return sizedVariables[name]
}

// sizedVariables are the variables other than args that contain lists.
var sizedVariables = map[string]*argType{
	"caller": {kind: kindStruct, fields: map[string]*argType{"roles": textList}},
	"cmd":    cmdSizes,
	"ctx": {kind: kindStruct, fields: map[string]*argType{
		"working_dirs": textList, "resolved": {kind: kindMap, maxLen: -1, elem: &argType{kind: kindString, maxLen: -1}}}},
}

var textList = &argType{kind: kindList, maxLen: -1, elem: &argType{kind: kindString, maxLen: -1}}

// at is the type that a cost path leads to: field names, "@items", "@keys" and
// "@values". nil: not declared.
func (t *argType) at(path []string) *argType {
	for _, step := range path {
		switch {
		case t == nil:
			return nil
		case t.kind == kindStruct:
			t = t.fields[step]
		case t.kind == kindList && step == "@items", t.kind == kindMap && step == "@values":
			t = t.elem
		case t.kind == kindMap && step == "@keys":
			return &argType{kind: kindString, maxLen: -1}
		case t.kind == kindMap:
			t = t.elem
		default:
			return nil
		}
	}
	return t
}

// maxCost is the highest cost that evaluating the expression can have.
func maxCost(env *cel.Env, ast *cel.Ast, hints sizeHints) (uint64, error) {
	est, err := env.EstimateCost(ast, hints)
	return est.Max, err
}

// loops reports whether the expression iterates over something.
func loops(ast *cel.Ast) bool {
	root := celast.NavigateAST(ast.NativeRep())
	return len(celast.MatchSubset(celast.MatchDescendants(root, celast.AllMatcher()),
		celast.KindMatcher(celast.ComprehensionKind))) > 0
}
