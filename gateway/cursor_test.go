package gateway_test

import (
	"testing"

	"github.com/askance-dev/askance/gateway"
)

func TestCursor(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0", "7", "7-1", "18446744073709551615-2147483647"} {
		c, err := gateway.ParseCursor(text)
		if err != nil || c.String() != text {
			t.Errorf("ParseCursor(%q) = %v, %v", text, c, err)
		}
	}
	for _, text := range []string{"", "-", "-1", "7-", "7-0", "0-1", "+7", "7-+1", " 7", "7-1-1", "x", "18446744073709551616", "7-2147483648"} {
		if c, err := gateway.ParseCursor(text); err == nil {
			t.Errorf("ParseCursor(%q) = %v, want an error", text, c)
		}
	}
}
