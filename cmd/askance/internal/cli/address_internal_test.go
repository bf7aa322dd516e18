package cli

import (
	"regexp"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// A name is one word for shells and xargs, no flag, and names its call alone.
func TestKeyNames(t *testing.T) {
	word := regexp.MustCompile(`^[^-\s'"\\*?\[][^\s'"\\*?\[]*$`)
	for _, id := range []string{"c1", "a b", "a/b", "a%20b", "%", "--all", "*", "a'b", `a"b`, "a\nb", `a\b`, "né", "[a]", "?"} {
		k := toolcall.Key{Session: message.SessionID(id), Reply: message.ReplyID(id), Call: message.CallID(id)}
		name := keyName(k)
		if !word.MatchString(name) {
			t.Errorf("the name of %q is no single word: %q", id, name)
		}
		if got, ok := readKeyName(name); ok && got != k || !ok && name != keyPath(k) {
			t.Errorf("%q names %q, want %q", name, got, k)
		}
	}
}
