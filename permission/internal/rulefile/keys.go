package rulefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The keys of a rule file as Go types. Rule files are read, described and completed from this
// one list. A field's tags are its key, its description for people, and
//
//	words   the allowed texts
//	hint    how to fix any other text
//	need    why the key is required
//	null    what null stands for: "nil" no value, "empty" an empty text
//	filled  the text must not be blank
//	min     the smallest integer

// File is a rule file, key by key.
type File struct {
	Version     version  `key:"version" need:"write version: 1" doc:"Version of the format: 1."`
	Name        string   `key:"name" need:"it becomes the source of the file's rules" doc:"Source of the file's rules; decisions name it."`
	Description string   `key:"description" doc:"For people."`
	Defaults    defaults `key:"defaults" doc:"Defaults for the rules in this file."`
	Vocabulary  terms    `key:"vocabulary" doc:"Names for CEL expressions over tool, caller, call and ctx. Rules in all files can use them."`
	Disable     []string `key:"disable" doc:"Names of rules in higher layers to disable. Locked rules stay in force."`
	Rules       []Rule   `key:"rules" need:"write rules: [] for none" doc:"The rules. Their order has no meaning."`
	Tests       []Test   `key:"tests" doc:"Calls with their expected decisions."`

	At    *Origin
	Sound bool // it is a mapping
}

type defaults struct {
	Mode        message.PermissionMode `key:"mode" words:"default,accept_edits,explore,bypass,dont_ask" doc:"Permission mode of requests that do not set one."`
	OnError     string                 `key:"on_error" words:"ask,deny" hint:"an error never allows" doc:"What a deny or ask rule does if it cannot be evaluated."`
	Expiry      time.Duration          `key:"expiry" doc:"How long approval requests stay open."`
	OnExpiry    string                 `key:"on_expiry" words:"deny,escalate" hint:"an expired approval request never allows" doc:"What happens to an approval request that got no response in time; escalate needs an escalation in the rule."`
	Shell       string                 `key:"shell" words:"bash,sh" doc:"Shell that runs the text of shell tools. A text must be safe under both readings."`
	Enforcement string                 `key:"enforcement" words:"enforce,warn,audit" doc:"Whether rules decide or only report their matches."`
	Audit       auditDoc               `key:"audit" doc:"What is recorded about calls."`
	Denial      denialDoc              `key:"denial" doc:"What agents are told about denials by deny and ask rules in this file, by default."`
}

// Rule is one entry of rules.
type Rule struct {
	Name         string           `key:"name" doc:"Unique and stable; named in every decision and record."`
	Description  string           `key:"description" filled:"yes" doc:"For people; shown if there is no message."`
	Tool         []string         `key:"tool" doc:"Exact tool names, server/* for the tools of a server, frontend/NAME for a tool that an agent's frontend supplies and no tools file declares, or * in deny and ask rules."`
	ToolName     []string         `key:"tool_name" doc:"The same as tool."`
	RuleContent  *string          `key:"rule_content" null:"nil" doc:"AgentScope's rule content, interpreted by the tool. null or empty matches every call."`
	Match        matchDoc         `key:"match" doc:"Other ways to select calls."`
	When         string           `key:"when" filled:"yes" doc:"CEL expression of type bool: selects the calls."`
	Behavior     message.Behavior `key:"behavior" words:"deny,ask,allow" doc:"deny, ask or allow. Deny outranks ask, ask outranks allow."`
	Message      string           `key:"message" filled:"yes" doc:"CEL expression of type string: what the person is asked or the model is told."`
	Denial       denialDoc        `key:"denial" doc:"What agents are also told when a call is denied by a deny or ask rule. Everything here reaches the model."`
	Source       string           `key:"source" filled:"yes" doc:"Where the rule comes from; by default the file's name."`
	OnError      string           `key:"on_error" words:"ask,deny" hint:"an error never allows" doc:"What a deny or ask rule does if it cannot be evaluated."`
	Locked       bool             `key:"locked" doc:"Lower layers cannot disable this deny or ask rule, and an error in it denies unless it has on_error: ask."`
	Enforcement  string           `key:"enforcement" words:"enforce,warn,audit" doc:"Whether the rule decides or only reports its matches."`
	Approvers    approversDoc     `key:"approvers" doc:"Who can respond; by default any approver."`
	Quorum       int              `key:"quorum" min:"1" doc:"How many distinct people must approve. One rejection ends the request."`
	Signed       bool             `key:"signed" doc:"Each approver signs with their own key, which workers can check."`
	Expiry       time.Duration    `key:"expiry" doc:"How long the approval request stays open."`
	OnExpiry     string           `key:"on_expiry" words:"deny,escalate" hint:"an expired approval request never allows" doc:"What happens then."`
	Escalation   []escalationDoc  `key:"escalation" doc:"Who else can respond as time passes."`
	Remember     *rememberDoc     `key:"remember" doc:"What an approval can cover beyond its call."`
	Redact       []string         `key:"redact" doc:"Paths into the arguments to hide from people and records, such as args.card.*"`
	Executor     executorDoc      `key:"executor" doc:"How the call runs once it is allowed."`
	Audit        auditDoc         `key:"audit" doc:"What is recorded about the call."`
	Recheck      bool             `key:"recheck" doc:"The condition of an ask or allow rule must still hold when the call starts; otherwise the call is denied."`
	Budget       *budgetDoc       `key:"budget" doc:"Limit on what an allow rule allows. Beyond it the rule does not apply."`
	Options      string           `key:"options" doc:"Options and operands that an allow rule for a command admits besides the listed ones."`
	TrustOptions bool             `key:"trust_options" doc:"Lets an allow rule cover all options of an unknown program."`
	IKnow        bool             `key:"i_know" doc:"Accepts lint errors in this rule."`

	At    *Origin
	Sound bool // it has no faults
}

type matchDoc struct {
	AgentScope *string `key:"agentscope" null:"nil" doc:"The same as rule_content."`
}

type approversDoc struct {
	Users            []string `key:"users" doc:"Names of people."`
	Groups           []string `key:"groups" doc:"Names of groups."`
	ExcludeRequester bool     `key:"exclude_requester" doc:"The people on whose behalf the call or one around it is made cannot respond."`
	ExcludeEditor    bool     `key:"exclude_editor" doc:"A person who edited the arguments does not count as an approver."`
}

type peopleDoc struct {
	Users  []string `key:"users" doc:"Names of people."`
	Groups []string `key:"groups" doc:"Names of groups."`
}

type escalationDoc struct {
	After time.Duration `key:"after" need:"say when, such as 10m" doc:"How long the approval request must have been open."`
	To    peopleDoc     `key:"to" need:"name the people or groups" doc:"Who else can respond from then on."`
}

type rememberDoc struct {
	Scope   []string      `key:"scope" doc:"Paths whose values must equal those of the approved call, such as args.customer_id or caller.user."`
	TTL     time.Duration `key:"ttl" need:"say how long, such as 1h" doc:"How long it lasts."`
	MaxUses int           `key:"max_uses" min:"1" doc:"How many further calls it allows; by default any number."`
}

type executorDoc struct {
	Subject string        `key:"subject" filled:"yes" doc:"Subject of the workers that take the call: only workers started with it, even if the tool has another placement. A call to an external tool, or one that rules route to different subjects, is denied."`
	Timeout time.Duration `key:"timeout" doc:"Time limit for one attempt; the tool's own timeout also applies. An external tool cannot be limited, so its call is denied."`
}

type budgetDoc struct {
	Calls  int           `key:"calls" min:"1" doc:"How many calls the rule allows; by default any number."`
	Sum    string        `key:"sum" filled:"yes" doc:"Path of a numeric argument whose values are added up, such as args.cents. The rule does not allow a value that is not a decimal number of at least 0."`
	AtMost amount        `key:"at_most" doc:"Largest sum: a decimal number in the unit of the argument, kept exactly."`
	Per    []string      `key:"per" words:"session,agent,requester,tool" doc:"What gets its own budget: each session, agent of a requester, requester or tool. By default all calls of the rule share one budget."`
	Every  time.Duration `key:"every" doc:"The limits apply to any period of this length. By default spending never expires."`
}

type denialDoc struct {
	Allowed string `key:"allowed" filled:"yes" doc:"What would be allowed instead."`
	Contact string `key:"contact" filled:"yes" doc:"Whom to ask."`
}

type auditDoc struct {
	Level string `key:"level" words:"standard,full" doc:"standard records events only. full adds the explanation of the decision to its event record, without redacted values."`
}

// Test is one entry of tests.
type Test struct {
	Name        string    `key:"name" need:"every test has one" doc:"What the test shows."`
	Description string    `key:"description" doc:"For people."`
	Call        callDoc   `key:"call" need:"say what is called" doc:"The call."`
	Expect      expectDoc `key:"expect" need:"say what you expect" doc:"The expected decision. Keys that are left out are not checked."`

	At    *Origin
	Sound bool
}

type callDoc struct {
	Tool         string                 `key:"tool" need:"name the tool" doc:"Name of the tool, with or without frontend/."`
	Args         *jsonObject            `key:"args" doc:"The arguments; none if left out."`
	Input        string                 `key:"input" doc:"The arguments as JSON text, in place of args."`
	Caller       Caller                 `key:"caller" doc:"Who calls."`
	Definition   *Definition            `key:"definition" doc:"What the runtime declares about a tool that is not in the tools file."`
	Parent       *Parent                `key:"parent" doc:"The parent call, within which it is made."`
	Mode         message.PermissionMode `key:"mode" words:"default,accept_edits,explore,bypass,dont_ask" doc:"Permission mode; by default the policy's."`
	Now          instant                `key:"now" doc:"The time, such as 2026-11-21T09:00:00Z."`
	Cwd          string                 `key:"cwd" doc:"Working directory."`
	WorkingDirs  []string               `key:"working_dirs" doc:"Directories in which tools can write."`
	Attempt      int                    `key:"attempt" min:"1" doc:"Number of the attempt."`
	CallsThisRun int                    `key:"calls_this_run" min:"1" doc:"Number of calls in the run, including this one."`
	SessionRules []sessionRule          `key:"session_rules" doc:"Rules that the session remembers."`
	Exhausted    []string               `key:"exhausted" doc:"Names of rules whose budget is exhausted. Other budgets have room."`
}

type sessionRule struct {
	ToolName    string           `key:"tool_name" need:"name the tool" doc:"Name of the tool."`
	RuleContent *string          `key:"rule_content" null:"nil" doc:"AgentScope's content."`
	Behavior    message.Behavior `key:"behavior" words:"deny,ask,allow" need:"say deny, ask or allow" doc:"deny, ask or allow."`
	Source      string           `key:"source" doc:"Where it comes from."`
}

// Definition is what a test's runtime declares about the tool.
type Definition struct {
	Hash        string `key:"hash" doc:"Its hash, tool.hash."`
	Changed     bool   `key:"changed" doc:"The session began with another definition."`
	ReadOnly    bool   `key:"read_only" doc:"It claims to change nothing."`
	Destructive bool   `key:"destructive" doc:"It claims to destroy something."`
	Idempotent  bool   `key:"idempotent" doc:"It claims that a second run has no further effect."`
	OpenWorld   bool   `key:"open_world" doc:"It claims to reach outside systems."`
}

// Parent is the call within which a test makes its call.
type Parent struct {
	Tool    string            `key:"tool" need:"name its tool" doc:"Name of its tool."`
	User    string            `key:"user" doc:"On whose behalf it is made."`
	Agent   string            `key:"agent" doc:"Name of its agent."`
	Session message.SessionID `key:"session" doc:"Its session."`
	Reply   message.ReplyID   `key:"reply" doc:"Its reply."`
	Call    message.CallID    `key:"id" doc:"Its id."`
	Around  []string          `key:"around" doc:"On whose behalf the calls around it are made."`
	Depth   int               `key:"depth" min:"1" doc:"How many calls enclose the test's call; by default 1."`
}

// Caller says on whose behalf a test makes its call.
type Caller struct {
	Agent       string            `key:"agent" doc:"Name of the agent."`
	User        string            `key:"user" doc:"On whose behalf."`
	Space       toolcall.SpaceID  `key:"space" doc:"Space."`
	Session     message.SessionID `key:"session" doc:"Session."`
	Reply       message.ReplyID   `key:"reply" doc:"Reply."`
	Roles       []string          `key:"roles" doc:"Roles."`
	Groups      []string          `key:"groups" doc:"Groups of the user."`
	Tenant      string            `key:"tenant" doc:"Tenant."`
	RunID       string            `key:"run_id" doc:"Run."`
	ParentAgent string            `key:"parent_agent" doc:"The agent that started this one."`
}

type expectDoc struct {
	Behavior message.Behavior `key:"behavior" words:"deny,ask,allow" doc:"The decision."`
	Rule     *string          `key:"rule" null:"empty" doc:"Name of the rule that decides; null for none."`
	Step     string           `key:"step" doc:"The step that decides."`
	Message  *string          `key:"message" doc:"The exact text."`
	Quorum   *int             `key:"quorum" min:"1" doc:"How many people must approve."`
	Expiry   *time.Duration   `key:"expiry" doc:"How long the approval request stays open."`
	OnExpiry string           `key:"on_expiry" words:"deny,escalate" doc:"What happens then."`
	Users    []string         `key:"users" doc:"People who can respond, by name."`
	Groups   []string         `key:"groups" doc:"Groups that can respond."`
	Redact   []string         `key:"redact" doc:"Paths that are hidden."`
	Errors   *bool            `key:"errors" doc:"Whether something could not be evaluated."`
}

// Key describes one key of rule files, for references.
type Key struct {
	// Path is the path from the top, such as "rules[].approvers.users".
	Path     string
	Type     string // text, true or false, number, duration, list of text, …
	Words    []string
	Required bool
	Doc      string
}

// Keys lists the keys of rule files, in the order in which they are usually
// written.
func Keys() []Key { return structKeys(reflect.TypeFor[File](), "") }

func keyPaths() []string {
	keys := Keys()
	out := make([]string, len(keys))
	for i := range keys {
		out[i] = keys[i].Path
	}
	return out
}

func structKeys(t reflect.Type, prefix string) []Key {
	var out []Key
	for _, k := range keysOf(t) {
		field := t.Field(k.index).Type
		key := Key{Path: prefix + k.name, Type: keyType(field), Words: slices.Clone(k.words), Required: k.need != "", Doc: k.doc}
		if t == reflect.TypeFor[Rule]() && (k.name == "name" || k.name == "behavior" || k.name == "tool") {
			key.Required = true // if one is missing, compiling the rule reports it
		}
		out = append(out, key)
		elem, path := field, key.Path+"."
		for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
			if elem.Kind() == reflect.Slice {
				path = key.Path + "[]."
			}
			elem = elem.Elem()
		}
		if _, own := ownTypes[elem]; elem.Kind() == reflect.Struct && !own {
			out = append(out, structKeys(elem, path)...)
		}
	}
	return out
}

func keyType(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return keyType(t.Elem())
	}
	if own, ok := ownTypes[t]; ok {
		return own.name
	}
	switch t.Kind() {
	case reflect.Slice:
		if elem := keyType(t.Elem()); elem == "text" {
			return "text, or list of text"
		}
		return "list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "number"
	case reflect.Struct:
		return "keys"
	default:
		return "text"
	}
}

// EditorSchema is the JSON Schema (draft 7) with which editors complete and check rule files. It is
// generated from the types that rule files are decoded into. It accepts every file that Parse
// accepts and some more: it does not know tools or how keys depend on each other.
func EditorSchema() []byte {
	s := structSchema(reflect.TypeFor[File]())
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "askance rule file"
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil // cannot happen: it contains only texts and numbers
	}
	return out.Bytes()
}

// ownTypes are the types that decode themselves, each with its name in the list of keys and its
// schema.
var ownTypes = map[reflect.Type]struct {
	name   string
	schema map[string]any
}{
	reflect.TypeFor[version]():    {"1", map[string]any{"enum": []int{1}}},
	reflect.TypeFor[terms]():      {"names with CEL expressions", map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}, "propertyNames": map[string]any{"pattern": TermName.String()}}},
	reflect.TypeFor[instant]():    {"time", map[string]any{"type": "string", "format": "date-time"}},
	reflect.TypeFor[jsonObject](): {"JSON object", map[string]any{"type": "object"}},
	reflect.TypeFor[amount]():     {"decimal number", map[string]any{"type": []string{"number", "string"}, "minimum": 0, "pattern": `^(0|[1-9][0-9]{0,17})(\.[0-9]{1,9})?$`}},
	durationType:                  {"duration", map[string]any{"type": "string", "pattern": DurationPattern}},
}

func structSchema(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, k := range keysOf(t) {
		p := keySchema(t.Field(k.index).Type, k)
		p["description"] = k.doc
		properties[k.name] = p
		if k.need != "" {
			required = append(required, k.name)
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if t == reflect.TypeFor[Rule]() {
		// Rules made in Go are checked for these, too, so their absence is reported there.
		required = append(required, "name", "behavior")
		s["oneOf"] = []any{map[string]any{"required": []string{"tool"}}, map[string]any{"required": []string{"tool_name"}}}
	}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func keySchema(t reflect.Type, k keyTags) map[string]any {
	if t.Kind() == reflect.Pointer {
		s := keySchema(t.Elem(), k)
		if k.null != "" {
			s["type"] = []string{"string", "null"}
		}
		return s
	}
	if own, ok := ownTypes[t]; ok {
		return maps.Clone(own.schema)
	}
	switch t.Kind() {
	case reflect.String:
		return textSchema(k)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": k.min, "maximum": maxInteger}
	case reflect.Struct:
		return structSchema(t)
	default:
		return listSchema(t.Elem(), keyTags{words: k.words})
	}
}

func textSchema(k keyTags) map[string]any {
	s := map[string]any{"type": "string"}
	if len(k.words) > 0 {
		s["enum"] = slices.Clone(k.words)
	}
	if k.filled {
		s["pattern"] = `\S`
	}
	return s
}

// listSchema is the schema of a list. A list of texts can be a single text.
func listSchema(elem reflect.Type, k keyTags) map[string]any {
	items := keySchema(elem, k)
	list := map[string]any{"type": "array", "items": items}
	if elem.Kind() != reflect.String {
		return list
	}
	return map[string]any{"anyOf": []any{items, list}}
}

// TermName matches the names of terms.
var TermName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// DurationPattern matches positive durations, for JSON Schemas.
const DurationPattern = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`

const day = 24 * time.Hour

// ParseDuration is time.ParseDuration plus days of 24 hours, which come first: 7d, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	whole, err := time.ParseDuration(days + "h")
	if err != nil || strings.Trim(days, "+-.0123456789") != "" || whole > math.MaxInt64/24 || whole < math.MinInt64/24 {
		return 0, fmt.Errorf("%.40q is not a duration", text)
	}
	whole *= 24
	if rest == "" {
		return whole, nil
	}
	part, err := time.ParseDuration(rest)
	if err != nil || rest[0] == '-' || rest[0] == '+' || whole > math.MaxInt64-part {
		return 0, fmt.Errorf("%.40q is not a duration", text)
	}
	if strings.HasPrefix(text, "-") {
		part = -part
	}
	return whole + part, nil
}

// FormatDuration omits zero parts, and uses days from two days on: 1h, 36h, 7d, 2d12h.
func FormatDuration(d time.Duration) string {
	days := ""
	if d >= 2*day {
		days = fmt.Sprintf("%dd", d/day)
		if d %= day; d == 0 {
			return days
		}
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return days + text
}
