package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
)

// The editor gets JSON in which nothing is hidden, and what it leaves is the same
// JSON but for what the person changed.
func TestEditorGetsJSON(t *testing.T) {
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", "sed -i s/500/400/")
	call := &message.Call{Input: "{\"to\":\"\u202eann\u007f\",\"cents\":500}"}
	text, err := readEditedInput(t.Context(), &environment{}, call, "")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "\u202e") || strings.Contains(text, "\u007f") {
		t.Errorf("the editor hides something: %q", text)
	}
	var got struct {
		To    string
		Cents int
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.To != "\u202eann\u007f" || got.Cents != 400 {
		t.Errorf("%s is %+v, %v", text, got, err)
	}
}
