package rulefile

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The keys of a rule file as Go types: the one list of keys from which rule
// files are read, described and completed. A field's
// tags are its key, what people need to know about it, and
//
//	words   the texts that are allowed
//	hint    how to fix another text
//	need    a remark on why the key must be there
//	null    what null stands for: "nil" no value, "empty" an empty text
//	filled  the text must not be blank
//	min     the least integer

// File is a rule file as its keys are written.
type File struct {
	Version     version  `key:"version" need:"write version: 1" doc:"Version of the format: 1."`
	Name        string   `key:"name" need:"it becomes the source of the file's rules" doc:"Source of the file's rules, as decisions name it."`
	Description string   `key:"description" doc:"For people."`
	Defaults    defaults `key:"defaults" doc:"What holds for the rules of this file that say nothing else."`
	Vocabulary  terms    `key:"vocabulary" doc:"Names for CEL expressions over tool, caller, call and ctx, for use in rules of all files."`
	Disable     []string `key:"disable" doc:"Names of rules of higher layers to take out; locked ones stay."`
	Rules       []Rule   `key:"rules" need:"write rules: [] for none" doc:"The rules. Their order has no meaning."`
	Tests       []Test   `key:"tests" doc:"Calls with the decisions they must get."`

	At    *Origin
	Sound bool // it has keys and values
}

type defaults struct {
	Mode        message.PermissionMode `key:"mode" words:"default,accept_edits,explore,bypass,dont_ask" doc:"Permission mode of requests that name none."`
	OnError     string                 `key:"on_error" words:"ask,deny" hint:"an error never allows" doc:"What a deny or ask rule that cannot be evaluated does."`
	Expiry      time.Duration          `key:"expiry" doc:"How long approval requests stay open."`
	OnExpiry    string                 `key:"on_expiry" words:"deny,escalate" hint:"an expired approval request never allows" doc:"What happens to an approval request that was not answered in time; escalate needs an escalation in the rule."`
	Shell       string                 `key:"shell" words:"bash,sh" doc:"The shell that runs the text of shell tools. Text must be safe under both readings."`
	Enforcement string                 `key:"enforcement" words:"enforce,warn,audit" doc:"Whether rules decide or are only watched."`
	Audit       auditDoc               `key:"audit" doc:"What is kept about calls."`
	Denial      denialDoc              `key:"denial" doc:"What agents are told about denials of the deny and ask rules of this file that say nothing else."`
}

// Rule is one entry of rules.
type Rule struct {
	Name         string           `key:"name" doc:"Unique and stable; named in every decision and record."`
	Description  string           `key:"description" filled:"yes" doc:"For people; shown where there is no message."`
	Tool         []string         `key:"tool" doc:"Exact tool names, server/* for the tools of a server, frontend/NAME for a tool that agents' frontends bring and no tools file declares, or * in deny and ask rules."`
	ToolName     []string         `key:"tool_name" doc:"The same as tool."`
	RuleContent  *string          `key:"rule_content" null:"nil" doc:"AgentScope's content, which the tool gives a meaning; null and empty match every call."`
	Match        matchDoc         `key:"match" doc:"Other ways to say which calls are meant."`
	When         string           `key:"when" filled:"yes" doc:"CEL expression of type bool: the calls that are meant."`
	Behavior     message.Behavior `key:"behavior" words:"deny,ask,allow" doc:"deny, ask or allow. Deny outranks ask, ask outranks allow."`
	Message      string           `key:"message" filled:"yes" doc:"CEL expression of type string: what the person is asked, or the model is told."`
	Denial       denialDoc        `key:"denial" doc:"What agents are told besides when a call of a deny or ask rule is denied: everything here reaches the model."`
	Source       string           `key:"source" filled:"yes" doc:"Where the rule comes from; the file's name if left out."`
	OnError      string           `key:"on_error" words:"ask,deny" hint:"an error never allows" doc:"What a deny or ask rule that cannot be evaluated does."`
	Locked       bool             `key:"locked" doc:"A deny or ask rule that lower layers cannot take out; an error in it denies."`
	Enforcement  string           `key:"enforcement" words:"enforce,warn,audit" doc:"Whether the rule decides or is only watched."`
	Approvers    approversDoc     `key:"approvers" doc:"Who may answer; any approver if left out."`
	Quorum       int              `key:"quorum" min:"1" doc:"How many distinct people must approve. One who rejects ends it."`
	Signed       bool             `key:"signed" doc:"Each approver signs with a key of their own, which workers can check."`
	Expiry       time.Duration    `key:"expiry" doc:"How long the approval request stays open."`
	OnExpiry     string           `key:"on_expiry" words:"deny,escalate" hint:"an expired approval request never allows" doc:"What happens then."`
	Escalation   []escalationDoc  `key:"escalation" doc:"Who else may answer as time passes."`
	Remember     *rememberDoc     `key:"remember" doc:"What an approval may cover beyond its call."`
	Redact       []string         `key:"redact" doc:"Paths into the arguments that people and records must not show, as args.card.*"`
	Executor     executorDoc      `key:"executor" doc:"How the call runs once it is allowed."`
	Audit        auditDoc         `key:"audit" doc:"What is kept about the call."`
	Recheck      bool             `key:"recheck" doc:"The condition of an ask or allow rule must hold again when the call begins; else the call is denied."`
	Budget       *budgetDoc       `key:"budget" doc:"How much an allow rule allows. Beyond it the rule does not apply."`
	Options      string           `key:"options" doc:"Options and operands that an allow rule for a command admits with the listed ones."`
	TrustOptions bool             `key:"trust_options" doc:"Lets an allow rule cover all options of an unknown program."`
	IKnow        bool             `key:"i_know" doc:"Accepts what lint refuses in this rule."`

	At    *Origin
	Sound bool // it has no faults
}

type matchDoc struct {
	AgentScope *string `key:"agentscope" null:"nil" doc:"The same as rule_content."`
}

type approversDoc struct {
	Users            []string `key:"users" doc:"Names of people."`
	Groups           []string `key:"groups" doc:"Names of groups."`
	ExcludeRequester bool     `key:"exclude_requester" doc:"The person on whose behalf the call is made cannot answer."`
	ExcludeEditor    bool     `key:"exclude_editor" doc:"A person who edited the arguments does not count as an approver of them."`
}

type peopleDoc struct {
	Users  []string `key:"users" doc:"Names of people."`
	Groups []string `key:"groups" doc:"Names of groups."`
}

type escalationDoc struct {
	After time.Duration `key:"after" need:"say when, as 10m" doc:"How long the approval request must have been open."`
	To    peopleDoc     `key:"to" need:"name the people or groups" doc:"Who may answer from then on, too."`
}

type rememberDoc struct {
	Scope   []string      `key:"scope" doc:"Paths whose values must be those of the approved call, as args.customer_id or caller.user."`
	TTL     time.Duration `key:"ttl" need:"say how long, as 1h" doc:"How long it lasts."`
	MaxUses int           `key:"max_uses" min:"1" doc:"How many further calls it answers; any number if left out."`
}

type executorDoc struct {
	Subject string        `key:"subject" filled:"yes" doc:"Subject on which workers take the call: only workers that were started with it, also for tools with another placement. A call of an external tool, or one that rules route to different subjects, is denied."`
	Timeout time.Duration `key:"timeout" doc:"Longest run of one attempt; the tool's own timeout holds as well. An external tool cannot be bound, and its call is denied."`
}

type budgetDoc struct {
	Calls  int           `key:"calls" min:"1" doc:"How many calls the rule allows; any number if left out."`
	Sum    string        `key:"sum" filled:"yes" doc:"Path of a numeric argument whose values are added up, as args.cents. A value that is no decimal number from 0 on is not allowed."`
	AtMost amount        `key:"at_most" doc:"Most that the sum can be: a decimal number, in the unit of the argument, which is kept exactly."`
	Per    []string      `key:"per" words:"session,agent,requester,tool" doc:"What has a budget of its own: each session, agent of a requester, requester or tool. One for all calls of the rule if left out."`
	Every  time.Duration `key:"every" doc:"The period: the limits hold in any period of this length. What is spent never returns if left out."`
}

type denialDoc struct {
	Allowed string `key:"allowed" filled:"yes" doc:"What would be allowed instead."`
	Contact string `key:"contact" filled:"yes" doc:"Whom to ask."`
}

type auditDoc struct {
	Level string `key:"level" words:"standard,full" doc:"standard keeps the event records; full the explanation of the decision as well, in the event record of the decision, without what is redacted."`
}

// Test is one entry of tests.
type Test struct {
	Name        string    `key:"name" need:"every test has one" doc:"What the test shows."`
	Description string    `key:"description" doc:"For people."`
	Call        callDoc   `key:"call" need:"say what is called" doc:"The call."`
	Expect      expectDoc `key:"expect" need:"say what must come out" doc:"What must come out. What is left out is not looked at."`

	At    *Origin
	Sound bool
}

type callDoc struct {
	Tool         string                 `key:"tool" need:"name the tool" doc:"Name of the tool."`
	Args         *jsonObject            `key:"args" doc:"The arguments; none if left out."`
	Input        string                 `key:"input" doc:"The arguments as JSON text, in place of args."`
	Caller       Caller                 `key:"caller" doc:"Who calls."`
	Definition   *Definition            `key:"definition" doc:"What the runtime declares of the tool, which the tools file does not have."`
	Parent       *Parent                `key:"parent" doc:"The call within which it is made."`
	Mode         message.PermissionMode `key:"mode" words:"default,accept_edits,explore,bypass,dont_ask" doc:"Permission mode; that of the policy if left out."`
	Now          instant                `key:"now" doc:"The time, as 2026-11-21T09:00:00Z."`
	Cwd          string                 `key:"cwd" doc:"Working directory."`
	WorkingDirs  []string               `key:"working_dirs" doc:"Directories in which tools may write."`
	Attempt      int                    `key:"attempt" min:"1" doc:"Number of the try."`
	CallsThisRun int                    `key:"calls_this_run" min:"1" doc:"Calls of the run, this one included."`
	SessionRules []sessionRule          `key:"session_rules" doc:"Rules that the session remembers."`
	Exhausted    []string               `key:"exhausted" doc:"Names of rules whose budget has no room. Others have room."`
}

type sessionRule struct {
	ToolName    string           `key:"tool_name" need:"name the tool" doc:"Name of the tool."`
	RuleContent *string          `key:"rule_content" null:"nil" doc:"AgentScope's content."`
	Behavior    message.Behavior `key:"behavior" words:"deny,ask,allow" need:"say deny, ask or allow" doc:"deny, ask or allow."`
	Source      string           `key:"source" doc:"Where it comes from."`
}

// Definition is what the runtime of a test declares of the tool.
type Definition struct {
	Hash        string `key:"hash" doc:"Its hash, tool.hash."`
	Changed     bool   `key:"changed" doc:"The session began with another one."`
	ReadOnly    bool   `key:"read_only" doc:"It claims to change nothing."`
	Destructive bool   `key:"destructive" doc:"It claims to destroy something."`
	Idempotent  bool   `key:"idempotent" doc:"It claims to do the same if it is done twice."`
	OpenWorld   bool   `key:"open_world" doc:"It claims to reach the world outside."`
}

// Parent is the call within which a test makes its call.
type Parent struct {
	Tool    string            `key:"tool" need:"name its tool" doc:"Name of its tool."`
	User    string            `key:"user" doc:"On whose behalf it is made."`
	Agent   string            `key:"agent" doc:"Name of its agent."`
	Session message.SessionID `key:"session" doc:"Its session."`
	Reply   message.ReplyID   `key:"reply" doc:"Its reply."`
	Call    message.CallID    `key:"id" doc:"Its id."`
	Depth   int               `key:"depth" min:"1" doc:"How many calls are around the call of the test; 1 if left out."`
}

// Caller is on whose behalf a test makes its call.
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
	Users    []string         `key:"users" doc:"People who may answer by name."`
	Groups   []string         `key:"groups" doc:"Groups that may answer."`
	Redact   []string         `key:"redact" doc:"Paths that are hidden."`
	Errors   *bool            `key:"errors" doc:"Whether something could not be evaluated."`
}

// Key describes one key of rule files, for references.
type Key struct {
	// Path leads to it from the top, as "rules[].approvers.users".
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
			key.Required = true // the absence of these is reported when the rule is compiled
		}
		out = append(out, key)
		elem, path := field, key.Path+"."
		for elem.Kind() == reflect.Pointer || elem.Kind() == reflect.Slice {
			if elem.Kind() == reflect.Slice {
				path = key.Path + "[]."
			}
			elem = elem.Elem()
		}
		if elem.Kind() == reflect.Struct && editorTypes[elem] == nil {
			out = append(out, structKeys(elem, path)...)
		}
	}
	return out
}

func keyType(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return keyType(t.Elem())
	}
	switch t {
	case reflect.TypeFor[version]():
		return "1"
	case reflect.TypeFor[terms]():
		return "names with CEL expressions"
	case reflect.TypeFor[instant]():
		return "time"
	case reflect.TypeFor[jsonObject]():
		return "JSON object"
	case reflect.TypeFor[amount]():
		return "decimal number"
	case durationType:
		return "duration"
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

// EditorSchema is the JSON Schema of rule files (draft 7), with which editors
// complete and check them while they are written. It is made from the types
// that rule files are read into. It accepts every file that Parse accepts, and
// some more: it does not know tools, nor what one key means for another.
func EditorSchema() []byte {
	s := structSchema(reflect.TypeFor[File]())
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "askance rule file"
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil // it has nothing but texts and numbers
	}
	return out.Bytes()
}

// editorTypes are the keys whose types read themselves.
var editorTypes = map[reflect.Type]map[string]any{
	reflect.TypeFor[version]():    {"enum": []int{1}},
	reflect.TypeFor[terms]():      {"type": "object", "additionalProperties": map[string]any{"type": "string"}, "propertyNames": map[string]any{"pattern": TermName.String()}},
	reflect.TypeFor[instant]():    {"type": "string", "format": "date-time"},
	reflect.TypeFor[jsonObject](): {"type": "object"},
	reflect.TypeFor[amount]():     {"type": []string{"number", "string"}, "minimum": 0, "pattern": `^(0|[1-9][0-9]{0,17})(\.[0-9]{1,9})?$`},
	durationType:                  {"type": "string", "pattern": DurationPattern},
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
		// Their absence is reported where rules made in Go are checked, too.
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
	if s, ok := editorTypes[t]; ok {
		return maps.Clone(s)
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

// listSchema is that of a list. A list of texts may be a single text.
func listSchema(elem reflect.Type, k keyTags) map[string]any {
	items := keySchema(elem, k)
	list := map[string]any{"type": "array", "items": items}
	if elem.Kind() != reflect.String {
		return list
	}
	return map[string]any{"anyOf": []any{items, list}}
}

// TermName is the form of the names of terms.
var TermName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
