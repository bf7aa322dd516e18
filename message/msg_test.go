package message

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func fixed() Codec {
	return Codec{
		Now:   func() time.Time { return time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC) },
		NewID: func() string { return "new-id" },
	}
}

func TestRoleRule(t *testing.T) {
	blocks := []Block{&TextBlock{}, &DataBlock{}, &ThinkingBlock{}, &HintBlock{}, &ToolCallBlock{}, &ToolResultBlock{}, &UnknownBlock{Kind: "new"}}
	tests := []struct {
		role MsgRole
		ok   string // one letter per block
	}{
		{RoleUser, "yynnnnn"},
		{RoleSystem, "ynnnnnn"},
		{RoleAssistant, "yyyyyyy"},
		{"tool", "nnnnnnn"},
		{"", "nnnnnnn"},
	}
	for _, tt := range tests {
		for i, b := range blocks {
			m := Msg{Role: tt.role, Content: []Block{b}}
			err := m.Validate()
			if want := tt.ok[i] == 'y'; (err == nil) != want {
				t.Errorf("%q with %s: Validate = %v, want ok %t", tt.role, b.Type(), err, want)
			}
			if err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("error %v is not ErrInvalid", err)
			}
		}
	}
}

func TestMsgHelpers(t *testing.T) {
	m := &Msg{Role: RoleAssistant, Content: []Block{
		&TextBlock{Text: "a", ID: "x"},
		&ToolCallBlock{ID: "x", Name: "first"},
		&ToolCallBlock{ID: "x", Name: "second"},
		&TextBlock{Text: "b", ID: "y"},
		&ToolResultBlock{ID: "x", Output: List(&TextBlock{Text: "1"}, &DataBlock{}, &TextBlock{Text: "2"})},
	}}
	if s, ok := m.TextContent("\n"); s != "a\nb" || !ok {
		t.Errorf("TextContent = %q, %t", s, ok)
	}
	if s, ok := (&Msg{}).TextContent("\n"); s != "" || ok {
		t.Errorf("TextContent of an empty message = %q, %t", s, ok)
	}
	if s, ok := (&Msg{Content: []Block{&TextBlock{}}}).TextContent("\n"); s != "" || !ok {
		t.Errorf("TextContent of an empty block = %q, %t", s, ok)
	}
	if n := len(m.Blocks(BlockText, BlockToolResult)); n != 3 {
		t.Errorf("%d text and result blocks, want 3", n)
	}
	if n := len(m.Blocks()); n != 5 {
		t.Errorf("%d blocks, want 5", n)
	}
	if !m.HasBlocks() || !m.HasBlocks(BlockHint, BlockToolCall) || m.HasBlocks(BlockHint) || (&Msg{}).HasBlocks() {
		t.Error("HasBlocks is wrong")
	}
	if calls := BlocksOf[*ToolCallBlock](m); len(calls) != 2 || calls[1].Name != "second" {
		t.Errorf("BlocksOf = %v", calls)
	}
	if c := m.ToolCall("x"); c == nil || c.Name != "first" {
		t.Errorf("ToolCall = %v, want the first", c)
	}
	if c := m.ToolCall("y"); c != nil {
		t.Errorf("ToolCall(y) = %v, but only a text block has that id", c)
	}
	if r := m.ToolResult("x"); r == nil || r.Output.String() != "1\n2" {
		t.Errorf("ToolResult = %v", r)
	}
	if s := m.String(); !strings.Contains(s, "assistant") || !strings.Contains(s, "5 blocks") {
		t.Errorf("String = %s", s)
	}
}

func TestFactories(t *testing.T) {
	c := fixed()
	m, err := c.UserMsg("bob", Content{Text: "hi"})
	if err != nil || m.ID != "new-id" || m.CreatedAt != "2026-03-01T08:00:00" || *m.FinishedAt != m.CreatedAt || len(m.Content) != 1 {
		t.Errorf("UserMsg = %+v, %v", m, err)
	}
	m, err = c.SystemMsg("sys", Content{}, WithCreatedAt("c"), func(m *Msg) { m.FinishedAt, m.Metadata = new("f"), map[string]any{"k": 1} })
	if err != nil || *m.FinishedAt != "f" || m.CreatedAt != "c" || m.Metadata["k"] != 1 || len(m.Content) != 1 {
		t.Errorf("SystemMsg = %+v, %v", m, err)
	}
	m, err = c.AssistantMsg("a", List(), WithID("r"), func(m *Msg) {
		m.Usage, m.FinishedReason, m.StructuredOutput = &Usage{InputTokens: 1}, new(FinishedError), map[string]any{}
	})
	if err != nil || m.FinishedAt != nil || m.ID != "r" || m.Usage.InputTokens != 1 || *m.FinishedReason != FinishedError || m.StructuredOutput == nil || len(m.Content) != 0 {
		t.Errorf("AssistantMsg = %+v, %v", m, err)
	}
	for name, bad := range map[string]func() (*Msg, error){
		"hint from a user":   func() (*Msg, error) { return UserMsg("u", List(&HintBlock{})) },
		"data from a system": func() (*Msg, error) { return c.SystemMsg("s", List(&DataBlock{})) },
		"nil block":          func() (*Msg, error) { return AssistantMsg("a", List(nil)) },
		"reason without a system": func() (*Msg, error) {
			return AssistantMsg("a", List(), func(m *Msg) { m.FinishedReason = new(FinishedReason("tired")) })
		},
	} {
		if m, err := bad(); m != nil || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, %v", name, m, err)
		}
	}
	if a, b := (Codec{}).NewText("x"), (Codec{}).NewText("x"); a.ID == b.ID {
		t.Error("two blocks share an id")
	}
}

func TestCloneSharesNothing(t *testing.T) {
	m := fullMsg(t)
	before, err := m.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	c := m.Clone()
	if again, _ := c.MarshalJSON(); string(again) != string(before) {
		t.Fatalf("the clone differs\n%s\n%s", again, before)
	}
	scribble(c)
	if after, _ := m.MarshalJSON(); string(after) != string(before) {
		t.Errorf("changing the clone changed the original\n%s\n%s", before, after)
	}
}

// fullMsg returns a message with every block and every optional field.
func fullMsg(t *testing.T) *Msg {
	t.Helper()
	m, err := DecodeMsg([]byte(`{"name":"n","role":"assistant","id":"m","created_at":"c","metadata":{"l":[{"a":1}]},
		"usage":{"input_tokens":1,"output_tokens":2},"finished_at":"f","finished_reason":"error","structured_output":{"o":{}},
		"error":{"message":"m"},"content":[
		{"type":"text","text":"t","id":"1","created_at":"c","finished_at":"f"},
		{"type":"thinking","thinking":"t","id":"2","created_at":"c","finished_at":"f","signature":"s"},
		{"type":"data","id":"3","source":{"type":"base64","data":"QQ==","media_type":"a/b"},"name":"n","created_at":"c","finished_at":"f"},
		{"type":"data","id":"4","source":{"type":"url","url":"https://e.test/","media_type":"a/b"},"created_at":"c"},
		{"type":"hint","hint":[{"type":"text","text":"t","id":"5","created_at":"c"}],"id":"6","source":"s","created_at":"c"},
		{"type":"tool_call","id":"7","name":"n","input":"{}","state":"asking","suggested_rules":[{"tool_name":"n","rule_content":"x","behavior":"allow","source":"s"}],"created_at":"c","finished_at":"f"},
		{"type":"tool_result","id":"7","name":"n","output":[{"type":"text","text":"t","id":"8","created_at":"c"}],"state":"success","metadata":{"m":[1]},"created_at":"c","finished_at":"f"},
		{"type":"new","x":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scribble changes everything that a message points to.
func scribble(m *Msg) {
	m.Metadata["l"].([]any)[0].(map[string]any)["a"] = 2
	m.StructuredOutput["o"].(map[string]any)["b"] = 2
	m.Usage.InputTokens, *m.FinishedAt, *m.FinishedReason, m.Error.Message = 9, "z", FinishedCompleted, "z"
	for _, b := range m.Content {
		scribbleBlock(b)
	}
	m.Content[0] = nil
}

func scribbleBlock(b Block) {
	switch b := b.(type) {
	case *TextBlock:
		b.Text = "z"
		if b.FinishedAt != nil {
			*b.FinishedAt = "z"
		}
	case *ThinkingBlock:
		b.Thinking, *b.FinishedAt, b.Extra[0].Name = "z", "z", "z"
	case *DataBlock:
		switch s := b.Source.(type) {
		case *Base64Source:
			s.Data, *b.Name = "z", "z"
		case *URLSource:
			s.URL = "https://z/"
		}
	case *HintBlock:
		*b.Source, *b.FinishedAt = "z", "z"
		scribbleBlock(b.Hint.Blocks[0])
	case *ToolCallBlock:
		b.Input, b.SuggestedRules[0].ToolName, *b.SuggestedRules[0].RuleContent = "z", "z", "z"
	case *ToolResultBlock:
		b.Metadata["m"].([]any)[0] = 9
		scribbleBlock(b.Output.Blocks[0])
	case *UnknownBlock:
		b.Raw[len(b.Raw)-2] = '9'
	}
}

func TestNewURLSource(t *testing.T) {
	s, err := NewURLSource("HTTPS://E.test:443/a/../b c", "image/png")
	if err != nil || s.URL != "https://e.test/b%20c" {
		t.Errorf("NewURLSource = %+v, %v", s, err)
	}
	if s, err := NewURLSource("relative/path", "image/png"); err == nil {
		t.Errorf("NewURLSource = %+v, want an error", s)
	}
}
