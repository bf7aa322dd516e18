package permission

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// Specifiers are rules written as Tool or Tool(specifier), the format in many agents' settings:
// Bash(git status:*), Read(./src/**), mcp__github__*.
type Specifiers struct {
	Source           string // of the rules; "" is "imported"
	Allow, Ask, Deny []string
}

// FromSpecifiers converts rules in that format to a policy, for the tools of the options. It
// refuses a text that would mean less than it says, or whose meaning depends on something unknown
// here; the *LoadError names each of them.
//
// An allow never gets wider: a command without * is allowed exactly as written. A deny or ask never
// gets narrower: it becomes several rules where the pattern languages differ.
func FromSpecifiers(s Specifiers, opts Options) (Policy, error) {
	var policy Policy
	var found problems
	im := importer{opts: opts, source: s.Source}
	im.source = cmp.Or(im.source, "imported")
	for _, list := range []struct {
		behavior message.Behavior
		texts    []string
	}{{message.BehaviorDeny, s.Deny}, {message.BehaviorAsk, s.Ask}, {message.BehaviorAllow, s.Allow}} {
		for _, text := range list.texts {
			rules, err := im.rules(text, list.behavior)
			if err != nil {
				found.add(Problem{Field: string(list.behavior), Msg: display.Quoted(text) + ": " + err.Error()})
			}
			policy.Rules = append(policy.Rules, rules...)
		}
	}
	policy.Rules = dropDuplicates(policy.Rules)
	if found.err() != nil {
		return Policy{}, found.err()
	}
	return checkImport(policy, opts)
}

// ImportContext is FromContext with the rules checked against the tools: an unknown tool, or
// content that nothing can interpret, is a *LoadError.
func ImportContext(c message.PermissionContext, opts Options) (Policy, error) {
	return checkImport(FromContext(c), opts)
}

func checkImport(p Policy, opts Options) (Policy, error) {
	if _, err := Compile(p, opts); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// dropDuplicates drops equal rules, and numbers different ones of one name, as long texts have.
func dropDuplicates(rules []Rule) []Rule {
	var out []Rule
	for _, r := range rules {
		if slices.ContainsFunc(out, func(o Rule) bool { o.Name = r.Name; return reflect.DeepEqual(o, r) }) {
			continue
		}
		name := r.Name
		for n := 2; slices.ContainsFunc(out, func(o Rule) bool { return o.Name == r.Name }); n++ {
			r.Name = fmt.Sprintf("%s#%d", name, n)
		}
		out = append(out, r)
	}
	return out
}

type importer struct {
	opts   Options
	source string
}

var specifierForm = regexp.MustCompile(`^([A-Za-z0-9_.*/-]+)(?:\((.*)\))?$`)

func (im importer) rules(text string, b message.Behavior) ([]Rule, error) {
	m := specifierForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return nil, errors.New("does not have the form Tool or Tool(specifier)")
	}
	tools, err := im.tools(m[1], b)
	if err != nil {
		return nil, err
	}
	base := Rule{Name: display.Quoted("specifier/" + string(b) + "/" + m[0]), Tools: tools, Behavior: b, Source: im.source}
	spec, bare := m[2], !strings.HasSuffix(m[0], ")")
	switch {
	case bare || spec == "*":
		return []Rule{base}, nil
	case spec == "":
		return nil, errors.New("the specifier is empty; write only the tool's name to match every call")
	case tools[0] == AnyTool: // the files, with any tool
		return pathRules(base, spec)
	case len(tools) != 1 || isServerPattern(tools[0]):
		return nil, errors.New("a specifier needs the name of one tool")
	}
	return im.specifiedRules(base, tools[0], spec)
}

func (im importer) tools(name string, b message.Behavior) ([]string, error) {
	mcp, isMCP := strings.CutPrefix(name, "mcp__")
	server, tool, hasTool := strings.Cut(mcp, "__")
	switch {
	case name == AnyTool && b != message.BehaviorAllow:
		return []string{AnyTool}, nil
	case isMCP && server != "" && !strings.Contains(server, "*") && (!hasTool || tool == "*"):
		return im.server(server)
	case strings.Contains(name, "*") && b == message.BehaviorAllow:
		return nil, errors.New("a pattern over tool names would allow tools that no author has checked; list the tools, or name a server as mcp__server__*")
	case strings.Contains(name, "*"):
		return nil, errors.New("is a pattern, but tool names are exact; list the tools, name a server as mcp__server__*, or write * for all")
	}
	for i := range im.opts.Tools {
		t := &im.opts.Tools[i]
		if t.Name == name || isMCP && hasTool && t.Server == server && t.Name == tool {
			return []string{t.Name}, nil
		}
	}
	if len(im.opts.Tools) > 0 && !im.opts.AllowUnknownTools {
		return nil, unknownTool(name, im.opts.Tools)
	}
	return []string{name}, nil
}

func (im importer) server(server string) ([]string, error) {
	known := slices.ContainsFunc(im.opts.Tools, func(t Tool) bool { return t.Server == server })
	if !known && len(im.opts.Tools) > 0 && !im.opts.AllowUnknownTools {
		return nil, fmt.Errorf("server %s has no tool", display.Quoted(server))
	}
	return []string{server + "/*"}, nil
}

func unknownTool(name string, tools []Tool) error {
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
	}
	slices.Sort(names)
	if hint := hint.DidYouMean(name, names); hint != "" {
		return fmt.Errorf("there is no tool %s; %s", display.Quoted(name), hint)
	}
	return fmt.Errorf("there is no tool %s", display.Quoted(name))
}

// Tools whose specifiers are command lines or paths.
var (
	commandTools = []string{"Bash", "PowerShell"}
	pathTools    = []string{"Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Glob", "Grep"}
	parameter    = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*):(.*)$`)
)

func (im importer) specifiedRules(base Rule, name, spec string) ([]Rule, error) {
	tool := im.tool(name)
	switch {
	case slices.Contains(commandTools, name) || shellKind(tool) != nil:
		return commandRules(base, tool, spec), nil
	case slices.Contains(pathTools, name):
		return pathRules(base, spec)
	}
	if m := parameter.FindStringSubmatch(spec); m != nil {
		return parameterRules(base, tool, m[1], m[2])
	}
	if im.opts.Matchers[name] == nil && (tool == nil || tool.Kind == nil) {
		return nil, fmt.Errorf("nothing can interpret %s for this tool; write a rule with when", display.Quoted(spec))
	}
	return []Rule{withContent(base, spec)}, nil
}

func (im importer) tool(name string) *Tool {
	for i := range im.opts.Tools {
		if im.opts.Tools[i].Name == name {
			return &im.opts.Tools[i]
		}
	}
	return nil
}

func withContent(base Rule, content string) Rule {
	base.RuleContent = &content
	return base
}

// commandRules interprets a command line. An allow without * means exactly that line; as rule
// content it would also allow further arguments.
func commandRules(base Rule, tool *Tool, spec string) []Rule {
	if prefix, ok := strings.CutSuffix(spec, " *"); ok && !strings.Contains(prefix, "*") {
		return []Rule{withContent(base, prefix+":*")}
	}
	if base.Behavior == message.BehaviorAllow && !strings.Contains(spec, "*") {
		base.When = "args." + cmp.Or(argumentOf(tool).Name, "command") + " == " + strconv.Quote(spec)
		return []Rule{base}
	}
	return []Rule{withContent(base, spec)}
}

// hostRules interprets domain:host for a tool that takes a url. An allow covers only that host, a
// deny or ask also the hosts below it.
func hostRules(base Rule, tool *Tool, host string) []Rule {
	hosts := []string{strconv.Quote(host)}
	if base.Behavior != message.BehaviorAllow && !strings.HasPrefix(host, "*") {
		hosts = append(hosts, strconv.Quote("*."+host))
	}
	base.When = "url.hostIn(args.url, [" + strings.Join(hosts, ", ") + "])"
	if tool != nil && tool.Schema != nil && !slices.Contains(tool.Schema.root().Required, "url") {
		base.When = "has(args.url) && " + base.When
	}
	return []Rule{base}
}

// takesURL reports whether, by its schema, a tool has a parameter url and none named domain.
func takesURL(tool *Tool) bool {
	if tool == nil || tool.Schema == nil {
		return true // a call without a url fails the rule, which then allows nothing
	}
	fields := tool.Schema.root().Fields
	return fields["url"] != nil && fields["url"].Kind == schema.KindString && fields["domain"] == nil
}

func parameterRules(base Rule, tool *Tool, name, value string) ([]Rule, error) {
	if name == "domain" && takesURL(tool) && !strings.Contains(strings.TrimPrefix(value, "*."), "*") {
		return hostRules(base, tool, value), nil
	}
	if tool == nil || tool.Schema == nil {
		return nil, fmt.Errorf("the tool has no schema, so it is unknown whether it has a parameter %s; write a rule with when", name)
	}
	root := tool.Schema.root()
	field := root.Fields[name]
	if root.Kind != schema.KindStruct || field == nil {
		msg := "the tool has no parameter " + name
		if hint := hint.DidYouMean(name, root.MemberNames()); hint != "" {
			msg += "; " + hint
		}
		return nil, errors.New(msg)
	}
	if strings.Contains(value, "*") {
		return nil, errors.New("a value with * is ambiguous; write a rule with when")
	}
	literal := value
	switch field.Kind {
	case schema.KindString:
		literal = strconv.Quote(value)
	case schema.KindInt:
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return nil, fmt.Errorf("%s is not a whole number, but parameter %s is", display.Quoted(value), name)
		}
	case schema.KindBool:
		if value != "true" && value != "false" {
			return nil, fmt.Errorf("%s is not true or false, but parameter %s is", display.Quoted(value), name)
		}
	default:
		return nil, fmt.Errorf("parameter %s is neither text nor a whole number nor true or false; write a rule with when", name)
	}
	if slices.Contains(tool.Schema.root().Required, name) {
		base.When = "args." + name + " == " + literal
	} else {
		base.When = "has(args." + name + ") && args." + name + " == " + literal
	}
	return []Rule{base}, nil
}

// Path specifiers use the syntax of .gitignore; rule content is matched like fnmatch, where * also
// matches /. Where the two differ, an allow is refused, and a deny or ask becomes rules for every
// reading.

func pathRules(base Rule, spec string) ([]Rule, error) {
	pattern, err := workingPath(spec)
	if err != nil {
		return nil, err
	}
	if base.Behavior == message.BehaviorAllow {
		if paths.IsForeign(pattern) {
			return nil, errors.New("is a Windows path, which no allow rule covers; write it relative to the working directory, with /")
		}
		if before, _, _ := strings.Cut(pattern, "**"); strings.Contains(before, "*") {
			return nil, errors.New("its * would match across folders here; write ** if you want that, or a rule with when")
		}
		return []Rule{withContent(base, pattern)}, nil
	}
	var out []Rule
	for i, p := range patternReadings(pattern) {
		r := withContent(base, p)
		if i > 0 {
			r.Name = display.Quoted(fmt.Sprintf("%s#%d", base.Name, i+1))
		}
		out = append(out, r)
	}
	return out, nil
}

// workingPath converts a path specifier to an absolute path or one relative to the working
// directory.
func workingPath(spec string) (string, error) {
	switch {
	case strings.HasPrefix(spec, "!"):
		return "", errors.New("begins with !, which excludes paths again; write a rule with when")
	case strings.HasPrefix(spec, "//"):
		return spec[1:], nil
	case strings.HasPrefix(spec, "/"):
		return "", errors.New("/ is relative to the folder of the settings, which is unknown here; write // for an absolute path, or ./")
	case strings.HasPrefix(spec, "~"):
		return "", errors.New("~ stands for a home folder that is unknown here; write out the path, with // in front")
	}
	return strings.TrimPrefix(spec, "./"), nil
}

// patternReadings returns patterns that together match everything the pattern matches: a name
// without / matches at any depth, ** also matches no folder at all, and a folder includes
// everything in it.
func patternReadings(pattern string) []string {
	pattern = strings.TrimSuffix(pattern, "/")
	out := []string{pattern}
	add := func(p string) {
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if !strings.Contains(pattern, "/") {
		add("*/" + pattern)
	}
	for _, p := range slices.Clone(out) {
		add(strings.ReplaceAll(p, "/**/", "/"))
		add(strings.TrimPrefix(p, "**/"))
	}
	for _, p := range slices.Clone(out) {
		if !strings.HasSuffix(p, "*") {
			add(p + "/*")
		}
	}
	return out
}
