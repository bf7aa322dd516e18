package message

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/codectest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/google/go-cmp/cmp"
)

// Hostile and malformed input is refused with the place of the fault.
func TestDecodeMsgRefuses(t *testing.T) {
	wrap := func(block string) string {
		return `{"name":"n","role":"assistant","content":[{"type":"text","text":""},` + block + `]}`
	}
	deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	tests := []struct {
		name, in string
		code     Code
		fault    error
		path     string
	}{
		{"10 MB", `{"name":"` + strings.Repeat("x", 10<<20) + `"}`, CodeTooLarge, strictjson.ErrTooLarge, ""},
		{"deep metadata", `{"metadata":` + deep + `}`, CodeInvalid, strictjson.ErrTooDeep, "/metadata" + strings.Repeat("/a", 63)},
		{"bracket flood", strings.Repeat("[", 1<<20), CodeInvalid, strictjson.ErrTooDeep, strings.Repeat("/0", 63)},
		{"duplicate member", `{"name":"n","role":"user","role":"system","content":[]}`, CodeInvalid, strictjson.ErrDuplicateName, "/role"},
		{"duplicate in a dropped member", `{"name":"n","role":"user","content":[],"zz":{"a":1,"a":2}}`, CodeInvalid, strictjson.ErrDuplicateName, "/zz/a"},
		{"duplicate in an unknown block", wrap(`{"type":"new","a":1,"a":2}`), CodeInvalid, strictjson.ErrDuplicateName, "/content/1/a"},
		{"wrong case is missing", `{"Name":"n","role":"user","content":[]}`, CodeInvalid, strictjson.ErrMissingMember, ""},
		{"wrong case of a value", `{"name":"n","role":"User","content":[]}`, CodeInvalid, strictjson.ErrType, "/role"},
		{"invalid UTF-8", "{\"name\":\"\xff\",\"role\":\"user\",\"content\":[]}", CodeInvalid, strictjson.ErrSyntax, "/name"},
		{"lone surrogate", wrap(`{"type":"text","text":"\ud800"}`), CodeInvalid, strictjson.ErrSyntax, "/content/1/text"},
		{"null metadata", `{"name":"n","role":"user","content":[],"metadata":null}`, CodeInvalid, strictjson.ErrType, "/metadata"},
		{"null content", `{"name":"n","role":"user","content":null}`, CodeInvalid, strictjson.ErrType, "/content"},
		{"null block", wrap(`null`), CodeInvalid, strictjson.ErrType, "/content/1"},
		{"null id", wrap(`{"type":"text","text":"","id":null}`), CodeInvalid, strictjson.ErrType, "/content/1/id"},
		{"null state", wrap(`{"type":"tool_call","id":"c","name":"n","input":"","state":null}`), CodeInvalid, strictjson.ErrType, "/content/1/state"},
		{"type is no string", wrap(`{"type":1}`), CodeInvalid, strictjson.ErrType, "/content/1/type"},
		{"no type", wrap(`{"text":"x"}`), CodeInvalid, strictjson.ErrMissingMember, "/content/1"},
		{"upper-case type is unknown, and so not for users", `{"name":"n","role":"user","content":[{"type":"TEXT","text":"x"}]}`, CodeInvalid, strictjson.ErrType, "/content/0"},
		{"tool call in output", wrap(`{"type":"tool_result","id":"c","name":"n","output":[{"type":"tool_call","id":"c","name":"n","input":""}]}`), CodeInvalid, strictjson.ErrType, "/content/1/output/0"},
		{"output object", wrap(`{"type":"tool_result","id":"c","name":"n","output":{}}`), CodeInvalid, strictjson.ErrType, "/content/1/output"},
		{"ambiguous source", wrap(`{"type":"data","source":{"data":"","url":"https://e.test","media_type":"a/b"}}`), CodeInvalid, strictjson.ErrMissingMember, "/content/1/source"},
		{"unknown source", wrap(`{"type":"data","source":{"type":"file","path":"/etc/passwd"}}`), CodeInvalid, strictjson.ErrType, "/content/1/source"},
		{"relative URL", wrap(`{"type":"data","source":{"type":"url","url":"/x","media_type":"a/b"}}`), CodeInvalid, strictjson.ErrType, "/content/1/source/url"},
		{"rule without content", wrap(`{"type":"tool_call","id":"c","name":"n","input":"","suggested_rules":[{"tool_name":"B","behavior":"allow","source":"s"}]}`), CodeInvalid, strictjson.ErrMissingMember, "/content/1/suggested_rules/0"},
		{"tokens as text", `{"name":"n","role":"user","content":[],"usage":{"input_tokens":"1","output_tokens":1}}`, CodeInvalid, strictjson.ErrType, "/usage/input_tokens"},
		{"tokens beyond 64 bits", `{"name":"n","role":"user","content":[],"usage":{"input_tokens":9223372036854775808,"output_tokens":1}}`, CodeInvalid, strictjson.ErrType, "/usage/input_tokens"},
		{"no object", `[]`, CodeInvalid, strictjson.ErrType, ""},
		{"empty", ``, CodeInvalid, strictjson.ErrSyntax, ""},
		{"two values", `{} {}`, CodeInvalid, strictjson.ErrSyntax, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := DecodeMsg([]byte(tt.in))
			wantRefused(t, m == nil, err, tt.code, tt.fault, tt.path)
		})
	}
}

func wantRefused(t *testing.T, none bool, err error, code Code, fault error, path string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code || !errors.Is(err, fault) || !none {
		t.Fatalf("error = %v, want code %s, fault %q and no value", err, code, fault)
	}
	var place *strictjson.Error
	if !errors.As(err, &place) || place.Path != path {
		t.Errorf("error %q is at %q, want %q", err, place.Path, path)
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	tests := []struct {
		name, in string
		fault    error
		path     string
	}{
		{"no type", `{"reply_id":"r","block_id":"b"}`, strictjson.ErrMissingMember, ""},
		{"no reply_id", `{"type":"USER_INTERRUPT"}`, strictjson.ErrMissingMember, ""},
		{"reply_id of another type", `{"type":"USER_INTERRUPT","reply_id":1}`, strictjson.ErrType, "/reply_id"},
		{"both data and url", `{"type":"TOOL_RESULT_DATA_DELTA","reply_id":"r","tool_call_id":"c","media_type":"m","data":"","url":""}`, strictjson.ErrType, ""},
		{"confirmed null", `{"type":"USER_CONFIRM_RESULT","reply_id":"r","confirm_results":[{"confirmed":null,"tool_call":{"id":"c","name":"n","input":""}}]}`, strictjson.ErrType, "/confirm_results/0/confirmed"},
		{"confirmed missing", `{"type":"USER_CONFIRM_RESULT","reply_id":"r","confirm_results":[{"tool_call":{"id":"c","name":"n","input":""}}]}`, strictjson.ErrMissingMember, "/confirm_results/0"},
		{"confirmed in another case", `{"type":"USER_CONFIRM_RESULT","reply_id":"r","confirm_results":[{"Confirmed":true,"tool_call":{"id":"c","name":"n","input":""}}]}`, strictjson.ErrMissingMember, "/confirm_results/0"},
		{"confirmed twice", `{"type":"USER_CONFIRM_RESULT","reply_id":"r","confirm_results":[{"confirmed":false,"confirmed":true,"tool_call":{"id":"c","name":"n","input":""}}]}`, strictjson.ErrDuplicateName, "/confirm_results/0/confirmed"},
		{"wrong inner type", `{"type":"REQUIRE_USER_CONFIRM","reply_id":"r","tool_calls":[{"type":"text","id":"c","name":"n","input":""}]}`, strictjson.ErrType, "/tool_calls/0/type"},
		{"running is a state, done is not", `{"type":"TOOL_RESULT_END","reply_id":"r","tool_call_id":"c","state":"done"}`, strictjson.ErrType, "/state"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := DecodeEvent([]byte(tt.in))
			wantRefused(t, e == nil, err, CodeInvalid, tt.fault, tt.path)
		})
	}
}

func TestDefaultsComeFromTheCodec(t *testing.T) {
	ids := 0
	c := Codec{
		Now:   func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6789000, time.UTC) },
		NewID: func() string { ids++; return strings.Repeat("i", ids) },
	}
	m, err := c.DecodeMsg([]byte(`{"name":"n","role":"user","content":[{"type":"text","text":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	b := m.Content[0].(*TextBlock)
	if b.ID != "i" || m.ID != "ii" || m.CreatedAt != "2026-01-02T03:04:05.006789" || b.CreatedAt != m.CreatedAt {
		t.Errorf("got %+v and %+v", m, b)
	}
	m, err = DecodeMsg([]byte(`{"name":"n","role":"user","content":[]}`))
	if err != nil || len(m.ID) != 32 || strings.Trim(m.ID, "0123456789abcdef") != "" {
		t.Errorf("id of the zero Codec is %q, %v, want 32 hex digits", m.ID, err)
	}
}

func TestTimestamp(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.FixedZone("x", 3600))
	for ns, want := range map[int]string{0: "2026-03-01T09:00:00", 999: "2026-03-01T09:00:00", 1_234_000: "2026-03-01T09:00:00.001234", 500_000_000: "2026-03-01T09:00:00.500000"} {
		if got := Timestamp(at.Add(time.Duration(ns))); got != want {
			t.Errorf("Timestamp(+%d ns) = %s, want %s", ns, got, want)
		}
	}
}

// Unknown blocks and events, and the extra members of a thinking block, keep their bytes: the
// spelling of numbers, escapes, order and white space.
func TestUnknownIsUntouched(t *testing.T) {
	odd := `{ "type":"hologram",  "n":[1.50, 1E+2, 123456789012345678901234567890], "s":"\u00e9\/", "id":"h" }`
	in := `{"name":"n","content":[` + odd + `,{"type":"thinking","thinking":"","z":{ "b":1.0, "a":"\u0041"}}],"role":"assistant"}`
	m, err := DecodeMsg([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if b, ok := m.Content[0].(*UnknownBlock); !ok || b.Type() != "hologram" || b.BlockID() != "h" {
		t.Fatalf("got %#v", m.Content[0])
	}
	out, err := m.MarshalJSON()
	if err != nil || !strings.Contains(string(out), odd) || !strings.Contains(string(out), `"z":{ "b":1.0, "a":"\u0041"}`) {
		t.Errorf("MarshalJSON = %s, %v", out, err)
	}
	if m, err := (Codec{RefuseUnknown: true}).DecodeMsg([]byte(in)); err == nil {
		t.Errorf("RefuseUnknown accepted %v", m)
	}

	odd = `{ "reply_id":"r","type":"WAVE_HAND","metadata":{"k":1},"created_at":7, "x":1.0 }`
	e, err := DecodeEvent([]byte(odd))
	if err != nil || e.Type() != "WAVE_HAND" || e.Type().Known() || e.ReplyID() != "r" || e.Header().CreatedAt != "" {
		t.Fatalf("DecodeEvent = %#v, %v", e, err)
	}
	if out, err := e.MarshalJSON(); err != nil || string(out) != odd {
		t.Errorf("MarshalJSON = %s, %v", out, err)
	}
	if e, err := (Codec{RefuseUnknown: true}).DecodeEvent([]byte(odd)); err == nil {
		t.Errorf("RefuseUnknown accepted %v", e)
	}
}

func TestDecodedValuesDoNotShareTheInput(t *testing.T) {
	in := []byte(`{"type":"hologram","x":1}`)
	b, err := Codec{}.DecodeBlock(in)
	if err != nil {
		t.Fatal(err)
	}
	want := string(in)
	for i := range in {
		in[i] = '!'
	}
	if out, _ := b.MarshalJSON(); string(out) != want {
		t.Errorf("the block changed with the input: %s", out)
	}
}

// Decoding into a value replaces all of its former content.
func TestUnmarshalReplaces(t *testing.T) {
	b := ThinkingBlock{Thinking: "old", FinishedAt: new("old"), Extra: []Member{{Name: "signature", Value: RawJSON("1")}}}
	if err := json.Unmarshal([]byte(`{"thinking":"new","id":"i","created_at":"c","x":2}`), &b); err != nil {
		t.Fatal(err)
	}
	want := ThinkingBlock{Thinking: "new", ID: "i", CreatedAt: "c", Extra: []Member{{Name: "x", Value: RawJSON("2")}}}
	if d := cmp.Diff(want, b); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestMaxBytes(t *testing.T) {
	in := []byte(`{"name":"n","role":"user","content":[{"type":"text","text":"` + strings.Repeat("x", 2<<20) + `"}]}`)
	if _, err := DecodeMsg(in); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error = %v, want too_large", err)
	}
	if _, err := (Codec{MaxBytes: len(in)}).DecodeMsg(in); err != nil {
		t.Errorf("with MaxBytes: %v", err)
	}
}

func TestMetadataKeepsNumbers(t *testing.T) {
	in := `{"type":"tool_result","id":"c","name":"n","output":"","metadata":{"big":123456789012345678901234567890,"i":9007199254740993,"f":0.1}}`
	b, err := Codec{}.DecodeBlock([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"big": json.Number("123456789012345678901234567890"), "i": int64(9007199254740993), "f": 0.1}
	if d := cmp.Diff(want, b.(*ToolResultBlock).Metadata); d != "" {
		t.Error(d)
	}
	out, err := b.MarshalJSON()
	if err != nil || !strings.Contains(string(out), `{"big":123456789012345678901234567890,"f":0.1,"i":9007199254740993}`) {
		t.Errorf("MarshalJSON = %s, %v", out, err)
	}
}

// A value that could not be decoded again is not encoded.
func TestMarshalRefuses(t *testing.T) {
	url := "x"
	tests := map[string]interface{ MarshalJSON() ([]byte, error) }{
		"unknown state":         &ToolCallBlock{State: "done"},
		"unknown behavior":      &ToolCallBlock{SuggestedRules: []PermissionRule{{}}},
		"no role":               &Msg{},
		"nil block":             &Msg{Role: RoleUser, Content: []Block{nil}},
		"typed nil block":       &Msg{Role: RoleUser, Content: []Block{(*TextBlock)(nil)}},
		"nil source":            &DataBlock{},
		"relative URL":          &DataBlock{Source: &URLSource{URL: "x"}},
		"call inside a result":  &ToolResultBlock{Output: List(&ToolCallBlock{})},
		"invalid UTF-8":         &TextBlock{Text: "\xff"},
		"invalid UTF-8 in keys": &ToolResultBlock{Metadata: map[string]any{"\xff": 1}},
		"neither data nor url":  &ToolResultDataDelta{},
		"both data and url":     &ToolResultDataDelta{Data: &url, URL: &url},
		"end without state":     &ToolResultEnd{},
		"extra is no JSON":      &ThinkingBlock{Extra: []Member{{Name: "x", Value: RawJSON("{")}}},
		"extra shadows a field": &ThinkingBlock{Extra: []Member{{Name: "id", Value: RawJSON("1")}}},
		"extra twice":           &ThinkingBlock{Extra: []Member{{Name: "x", Value: RawJSON("1")}, {Name: "x", Value: RawJSON("2")}}},
		"empty unknown block":   &UnknownBlock{Kind: "new"},
		"broken unknown event":  &UnknownEvent{Kind: "NEW", Raw: RawJSON("{]")},
	}
	for name, v := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := v.MarshalJSON()
			var e *strictjson.Error
			if err == nil || !errors.As(err, &e) {
				t.Errorf("MarshalJSON = %s, %v (%T), want a *strictjson.Error", out, err, err)
			}
		})
	}
}

// An empty field that has a default is encoded as that default.
func TestZeroValuesAreWrittenAsDefaults(t *testing.T) {
	tests := []struct {
		v    interface{ MarshalJSON() ([]byte, error) }
		want string
	}{
		{&ToolCallBlock{}, `{"type":"tool_call","id":"","name":"","input":"","state":"pending","suggested_rules":[],"created_at":"","finished_at":null}`},
		{&ToolResultBlock{}, `{"type":"tool_result","id":"","name":"","output":"","state":"running","metadata":{},"created_at":"","finished_at":null}`},
		{&PermissionContext{}, `{"mode":"default","working_directories":{},"allow_rules":{},"deny_rules":{},"ask_rules":{}}`},
		{&ReplyEnd{}, `{"id":"","created_at":"","metadata":{},"type":"REPLY_END","reply_id":"","session_id":"","finished_reason":"completed","error":null}`},
		{&Custom{}, `{"id":"","created_at":"","metadata":{},"type":"CUSTOM","name":"","value":{}}`},
		{Content{}, `""`},
		{List(), `[]`},
	}
	for _, tt := range tests {
		if out, err := tt.v.MarshalJSON(); err != nil || string(out) != tt.want {
			t.Errorf("%T = %s, %v\nwant %s", tt.v, out, err, tt.want)
		}
	}
}

// The types work inside other structs, with any library.
func TestInsideOtherStructs(t *testing.T) {
	type outer struct {
		Call   ToolCallBlock    `json:"call"`
		Result *ToolResultBlock `json:"result"`
		Msg    Msg              `json:"msg"`
		Rules  []PermissionRule `json:"rules"`
	}
	in := `{"call":{"id":"c","name":"n","input":"","extra":1},"result":null,"msg":{"name":"n","role":"user","content":[]},"rules":[{"tool_name":"B","rule_content":null,"behavior":"deny","source":"s"}]}`
	var strict, std outer
	if err := strictjson.Unmarshal([]byte(in), &strict); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(in), &std); err != nil {
		t.Fatal(err)
	}
	if strict.Call.State != ToolCallPending || strict.Result != nil || std.Call.State != ToolCallPending {
		t.Errorf("decoded %+v and %+v", strict, std)
	}
	a, err := strictjson.Marshal(strict)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(strict)
	if err != nil || string(a) != string(b) {
		t.Errorf("strictjson.Marshal = %s\njson.Marshal = %s, %v", a, b, err)
	}
	err = strictjson.Unmarshal([]byte(`{"rules":[{"tool_name":"B","behavior":"deny","source":"s"}]}`), &strict)
	if e := (*strictjson.Error)(nil); !errors.As(err, &e) || e.Path != "/rules/0" || !errors.Is(err, strictjson.ErrMissingMember) {
		t.Errorf("error = %v", err)
	}
}

// Package wire accepts every wire tag (it panics at unknown ones), every default is a valid word,
// and every field has a name.
func TestPlans(t *testing.T) {
	types := []any{Msg{}, Usage{}, ErrorInfo{}, PermissionRule{}, PermissionContext{}, WorkingDirectory{}, ConfirmResult{}, Base64Source{}, URLSource{}, EventHeader{}}
	for _, b := range []BlockType{BlockText, BlockThinking, BlockData, BlockHint, BlockToolCall, BlockToolResult} {
		types = append(types, reflect.ValueOf(newBlock(b)).Elem().Interface())
	}
	for _, e := range allEventTypes {
		types = append(types, reflect.ValueOf(newEvent(e)).Elem().Interface())
	}
	for _, v := range types {
		typ := reflect.TypeOf(v)
		_, _ = format.Append(nil, reflect.New(typ).Interface())
		for f := range typ.Fields() {
			for o := range strings.SplitSeq(f.Tag.Get("wire"), ",") {
				word0, isDefault := strings.CutPrefix(o, "default=")
				if isDefault && !reflect.ValueOf(word0).Convert(f.Type).Interface().(word).Valid() {
					t.Errorf("%s.%s: default %q is not a valid value", typ, f.Name, word0)
				}
			}
			if f.Tag.Get("json") == "" && !f.Anonymous {
				t.Errorf("%s.%s has no json name", typ, f.Name)
			}
		}
	}
}

var allEventTypes = []EventType{
	EventReplyStart, EventReplyEnd, EventModelCallStart, EventModelCallEnd,
	EventTextBlockStart, EventTextBlockDelta, EventTextBlockEnd,
	EventThinkingBlockStart, EventThinkingBlockDelta, EventThinkingBlockEnd,
	EventDataBlockStart, EventDataBlockDelta, EventDataBlockEnd, EventHintBlock,
	EventToolCallStart, EventToolCallDelta, EventToolCallEnd,
	EventToolResultStart, EventToolResultTextDelta, EventToolResultDataDelta, EventToolResultEnd,
	EventExceedMaxIters, EventRequireUserConfirm, EventUserConfirmResult,
	EventRequireExternalExecution, EventExternalExecutionResult, EventUserInterrupt, EventCustom,
}

// Each type can also decode itself, without the table, and refuses other types.
func TestUnmarshalJSONOfEachType(t *testing.T) {
	seen := map[string]bool{}
	rows(t, "serialization.jsonl", func(t *testing.T, line []byte) {
		var r struct {
			Kind   string
			Output json.RawMessage
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Output == nil || strings.HasSuffix(r.Kind, "_msg") || r.Kind == "rule" || r.Kind == "context" {
			return
		}
		v := selfDecoder(t, r.Kind, r.Output)
		if err := json.Unmarshal(r.Output, v); err != nil {
			t.Errorf("%T: %v", v, err)
			return
		}
		if out, err := v.MarshalJSON(); err != nil {
			t.Errorf("%T: %v", v, err)
		} else {
			codectest.SameJSON(t, out, r.Output)
		}
		if err := json.Unmarshal([]byte(`{"type":"other"}`), v); err == nil {
			t.Errorf("%T decodes another type", v)
		}
		seen[typeName(v)] = true
	})
	if len(seen) != 28+6+1 {
		t.Errorf("%d types were tried, want 35", len(seen))
	}
	for _, v := range []interface{ MarshalJSON() ([]byte, error) }{new(UnknownBlock), new(UnknownEvent), new(URLSource), new(Base64Source)} {
		in := `{"type":"` + map[bool]string{true: typeName(v), false: "new"}[typeName(v) != ""] + `","url":"https://e.test/","data":"x","media_type":"m"}`
		if err := json.Unmarshal([]byte(in), v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
		if out, err := v.MarshalJSON(); err != nil || !strings.Contains(string(out), `"media_type":"m"`) {
			t.Errorf("%T = %s, %v", v, out, err)
		}
	}
}

func selfDecoder(t *testing.T, kind string, raw []byte) interface{ MarshalJSON() ([]byte, error) } {
	t.Helper()
	switch kind {
	case "msg":
		return new(Msg)
	case "event":
		e, err := DecodeEvent(raw)
		if err != nil {
			t.Fatal(err)
		}
		return newEvent(e.Type())
	}
	return newBlock(BlockType(kind))
}

func TestEventTable(t *testing.T) {
	if len(allEventTypes) != 28 {
		t.Fatalf("%d event types, want 28", len(allEventTypes))
	}
	for _, typ := range allEventTypes {
		if e := newEvent(typ); e == nil || e.Type() != typ {
			t.Errorf("newEvent(%s) = %T", typ, e)
		}
	}
}
