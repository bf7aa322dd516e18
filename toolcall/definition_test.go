package toolcall_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Without other runtimes around a call, records and approval requests have no list of them.
func TestNoRuntimesAround(t *testing.T) {
	outer := &toolcall.Call{Key: toolcall.Key{Call: "outer"}, Runtime: "bot", State: message.ToolCallSubmitted}
	parent, err := outer.AsParent()
	if err != nil {
		t.Fatal(err)
	}
	inner := &toolcall.Call{Key: toolcall.Key{Call: "inner"}, Runtime: "Bot", State: message.ToolCallSubmitted, Parent: parent}
	around, err := inner.AsParent()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]any{parent, around, toolcall.Requirement{RequestersAround: parent.RuntimesExcept("BOT")}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "around") {
		t.Errorf("an empty list of runtimes is written: %s", text)
	}
	if got := parent.RuntimesExcept("eve"); len(got) != 1 || got[0] != "bot" {
		t.Errorf("the runtimes except eve are %q, want bot", got)
	}
}
