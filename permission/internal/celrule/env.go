// Package celrule is the language of conditions and messages: the CEL environment with
// its variables and functions, and compiled expressions whose cost is proved at load
// time or limited at run time.
package celrule

import (
	"maps"
	"slices"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// LanguageVersion names the environment below. It is part of every bundle hash: change it with any
// option, library version or variable.
const LanguageVersion = "askance-cel-5"

// Limits on the text of one expression. They allow far more than a rule that people can review.
const (
	maxExpressionSize  = 8192 // code points
	maxExpressionNodes = 2000
	maxParserRecursion = 64
	MaxNestedLoops     = 2
	maxRegexProgram    = 500 // instructions
	maxNestedBinds     = 8
)

// Names of the struct types in rules.
const (
	toolType        = "askance.Tool"
	annotationsType = "askance.Annotations"
	claimsType      = "askance.Claims"
	callerType      = "askance.Caller"
	callType        = "askance.Call"
	parentType      = "askance.Parent"
	contextType     = "askance.Context"
	ArgsType        = schema.RootName
)

var fixedTypes = map[string]map[string]*cel.Type{
	toolType: {
		"name":        cel.StringType,
		"server":      cel.StringType,
		"schema_hash": cel.StringType,
		"annotations": cel.ObjectType(annotationsType),
		"hash":        cel.StringType,
		"changed":     cel.BoolType,
		"claims":      cel.ObjectType(claimsType),
	},
	annotationsType: annotationFields,
	claimsType:      annotationFields,
	callType: {
		"depth":  cel.IntType,
		"parent": cel.ObjectType(parentType),
	},
	parentType: {
		"tool":    cel.StringType,
		"user":    cel.StringType,
		"agent":   cel.StringType,
		"session": cel.StringType,
		"reply":   cel.StringType,
		"id":      cel.StringType,
	},
	callerType: {
		"agent":   cel.StringType,
		"user":    cel.StringType,
		"space":   cel.StringType,
		"session": cel.StringType,
		"reply":   cel.StringType,
		"roles":   cel.ListType(cel.StringType),
		"groups":  cel.ListType(cel.StringType),

		"tenant":       cel.StringType,
		"run_id":       cel.StringType,
		"parent_agent": cel.StringType,
	},
	contextType: {
		"mode":         cel.StringType,
		"now":          cel.TimestampType,
		"cwd":          cel.StringType,
		"working_dirs": cel.ListType(cel.StringType),

		"attempt":        cel.IntType,
		"calls_this_run": cel.IntType,

		"resolved": cel.MapType(cel.StringType, cel.StringType),
	},
	CommandType:       commandFields,
	simpleCommandType: simpleCommandFields,
}

var annotationFields = map[string]*cel.Type{
	"read_only":   cel.BoolType,
	"destructive": cel.BoolType,
	"idempotent":  cel.BoolType,
	"open_world":  cel.BoolType,
}

// BaseEnv is the language without variables. Library versions are pinned, so upgrading cel-go does
// not change what a rule means. No function reads a clock, a file or the network: same input, same
// answer.
var BaseEnv = sync.OnceValues(func() (*cel.Env, error) {
	opts := append([]cel.EnvOption{
		cel.OptionalTypes(cel.OptionalTypesVersion(4)),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.EnableMacroCallTracking(),
		cel.EnableIdentifierEscapeSyntax(),
		cel.CostModelVersion(1),
		cel.ParserExpressionSizeLimit(maxExpressionSize),
		cel.ParserRecursionLimit(maxParserRecursion),
		cel.ExpressionNodeLimit(maxExpressionNodes),
		cel.RegexProgramSizeLimit(maxRegexProgram),
		ext.Strings(ext.StringsVersion(5)),
		ext.Lists(ext.ListsVersion(5)),
		ext.Sets(ext.SetsVersion(1)),
		ext.Math(ext.MathVersion(3)),
		ext.Network(ext.NetworkVersion(1)),
		ext.Regex(ext.RegexVersion(1)),
		ext.Bindings(ext.BindingsVersion(1)),
		ext.TwoVarComprehensions(ext.TwoVarComprehensionsVersion(1)),
		cel.ASTValidators(
			unlessSimple{patternValidator{}},
			unlessSimple{cel.ValidateDurationLiterals()},
			unlessSimple{cel.ValidateTimestampLiterals()},
			cel.ValidateHomogeneousAggregateLiterals(), // configures other validators
			unlessSimple{cel.ValidateComprehensionNestingLimit(MaxNestedLoops)},
			unlessSimple{cel.ValidateRegexProgramSizeLimit(maxRegexProgram)},
			unlessSimple{cel.ValidateBindNestingLimit(maxNestedBinds)},
		),
		cel.ASTValidators(zoneValidators()...),
	}, functionOptions()...)
	env, err := cel.NewEnv(opts...)
	if err != nil {
		return nil, err
	}
	return boundWork(env)
})

// ToolEnv is the language with variables, and with args typed by the schema. A nil type makes args
// a map of anything.
func ToolEnv(declared *schema.Type, more ...cel.EnvOption) (*cel.Env, error) {
	args := cel.MapType(cel.StringType, cel.DynType)
	structs := map[string]*schema.Type{}
	if declared != nil {
		args = CelType(declared)
		declared.Structs(structs)
	}
	return extendBase(structs, append(more, cel.Variable("args", args))...)
}

// TermEnv is the language of terms, which are shared by all tools and see no arguments.
func TermEnv() (*cel.Env, error) { return extendBase(nil) }

func extendBase(structs map[string]*schema.Type, more ...cel.EnvOption) (*cel.Env, error) {
	base, err := BaseEnv()
	if err != nil {
		return nil, err
	}
	// The provider must be added with Extend: together with OptionalTypes it fails.
	return base.Extend(append(more,
		cel.CustomTypeProvider(newTypeProvider(base.CELTypeProvider(), structs)),
		cel.Variable("tool", cel.ObjectType(toolType)),
		cel.Variable("caller", cel.ObjectType(callerType)),
		cel.Variable("call", cel.ObjectType(callType)),
		cel.Variable("ctx", cel.ObjectType(contextType)),
	)...)
}

// typeProvider declares struct types only to the checker. At run time their values are plain maps,
// so an absent field is an error unless the rule guards it, rather than a zero value.
type typeProvider struct {
	types.Provider
	fields map[string]map[string]*cel.Type
}

func newTypeProvider(base types.Provider, structs map[string]*schema.Type) *typeProvider {
	p := &typeProvider{Provider: base, fields: make(map[string]map[string]*cel.Type, len(structs))}
	for name, t := range structs {
		fields := make(map[string]*cel.Type, len(t.Fields))
		for field, sub := range t.Fields {
			fields[field] = CelType(sub)
		}
		p.fields[name] = fields
	}
	return p
}

func (p *typeProvider) lookup(name string) (map[string]*cel.Type, bool) {
	if f, ok := fixedTypes[name]; ok {
		return f, true
	}
	f, ok := p.fields[name]
	return f, ok
}

func (p *typeProvider) FindStructType(name string) (*types.Type, bool) {
	if _, ok := p.lookup(name); ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return p.Provider.FindStructType(name)
}

func (p *typeProvider) FindStructFieldNames(name string) ([]string, bool) {
	fields, ok := p.lookup(name)
	if !ok {
		return p.Provider.FindStructFieldNames(name)
	}
	return slices.Sorted(maps.Keys(fields)), true
}

func (p *typeProvider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	fields, ok := p.lookup(name)
	if !ok {
		return p.Provider.FindStructFieldType(name, field)
	}
	t, ok := fields[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{Type: t}, true
}

// CelType is the type of the value in rules.
func CelType(t *schema.Type) *cel.Type {
	switch t.Kind {
	case schema.KindString:
		return cel.StringType
	case schema.KindInt:
		return cel.IntType
	case schema.KindDouble:
		return cel.DoubleType
	case schema.KindBool:
		return cel.BoolType
	case schema.KindList:
		return cel.ListType(celElem(t.Elem))
	case schema.KindMap:
		return cel.MapType(cel.StringType, celElem(t.Elem))
	case schema.KindStruct:
		return cel.ObjectType(t.Name)
	default:
		return cel.DynType
	}
}

// celElem is CelType for the elements of a list or map. Lists of lists that contain themselves have
// no CEL type; they are dyn from the second level on.
func celElem(t *schema.Type) *cel.Type {
	if t.Kind == schema.KindList || t.Kind == schema.KindMap {
		if inner := t.Elem.Kind; inner == schema.KindList || inner == schema.KindMap {
			return cel.DynType
		}
	}
	return CelType(t)
}

// The types of the variable cmd.
const (
	CommandType       = "askance.Command"
	simpleCommandType = "askance.SimpleCommand"
)

var commandFields = map[string]*cel.Type{
	"static":  cel.BoolType,
	"calls":   cel.ListType(cel.ObjectType(simpleCommandType)),
	"reasons": cel.ListType(cel.StringType),
}

var simpleCommandFields = map[string]*cel.Type{
	"argv":      cel.ListType(cel.StringType),
	"assigns":   cel.ListType(cel.StringType),
	"redirects": cel.ListType(cel.StringType),
	"via":       cel.ListType(cel.StringType),
	// whether an allow rule for the program, such as git:*, covers the arguments
	"options_admitted": cel.BoolType,
}

// Usual sizes of command lines, for estimating the cost of a condition at load time. Conditions on
// longer lines are stopped at run time.
const (
	usualCommands = 30
	usualWords    = 16
	usualWord     = 64
)

var (
	wordList = &schema.Type{Kind: schema.KindList, MaxLen: -1, Usual: usualWords, Elem: &schema.Type{Kind: schema.KindString, MaxLen: -1, Usual: usualWord}}
	cmdSizes = &schema.Type{Kind: schema.KindStruct, Fields: map[string]*schema.Type{
		"reasons": wordList,
		"calls": {Kind: schema.KindList, MaxLen: -1, Usual: usualCommands, Elem: &schema.Type{Kind: schema.KindStruct, Fields: map[string]*schema.Type{
			"argv": wordList, "assigns": wordList, "redirects": wordList, "via": wordList,
		}}},
	}}
)
