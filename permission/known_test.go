package permission_test

import (
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Every variable is either always present, or declared as possibly missing.
func TestMayBeMissing(t *testing.T) {
	missing := 0
	for path := range permission.Variables() {
		if path[:4] == "cmd." {
			continue // only for shell tools
		}
		b := compile(t, permission.Options{}, rule("r", message.BehaviorDeny, "has("+path+")"))
		there := decide(b, "", `{}`).Behavior == message.BehaviorDeny
		if there == permission.MayBeMissing(path) {
			t.Errorf("%s: present %v, may be missing %v", path, there, permission.MayBeMissing(path))
		}
		if !there {
			missing++
		}
	}
	if missing < 6 {
		t.Errorf("only %d variables may be missing", missing)
	}
}
