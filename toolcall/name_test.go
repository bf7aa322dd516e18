package toolcall_test

import (
	"testing"

	"github.com/askance-dev/askance/toolcall"
)

// TestCheckName: a name that looks like another name is invalid.
func TestCheckName(t *testing.T) {
	for _, good := range []string{"ann", "Ann Müller", "ann@example.com", "Вера", "山田 太郎", "M\u00fcller", "नमस्ते", "o'neil", "team/app-1"} {
		if err := toolcall.CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", " ann", "ann ", "a\tb", "ann\u200b", "ad\u202emin", "ann\u00a0b", "ann\u2003b", "a\u00adnn", "ann\ufe0f", "ann\u3164", "ann\U000e0041", "\ufeffann", "a\xff", "ann\u2028", "ann\ue000", "Mu\u0308ller", "askance-gateway", "Askance-Gateway"} {
		if toolcall.CheckName(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
