package toolcall_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/toolcall"
)

func TestParseTrace(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for header, want := range map[string]toolcall.Trace{
		good:                                   good,
		"cc" + good[2:] + "-of-the-future":     good, // what a later version adds is ignored
		"":                                     "",
		good + "-more":                         "",
		"ff" + good[2:]:                        "",
		strings.ToUpper(good):                  "",
		strings.Replace(good, "-b7", "_b7", 1): "",
		"00-" + strings.Repeat("0", 32) + good[35:]:         "",
		good[:36] + strings.Repeat("0", 16) + good[52:]:     "",
		"cc" + good[2:] + "x":                               "",
		good[:54] + "g":                                     "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203": "",
	} {
		if got := toolcall.ParseTrace(header); got != want {
			t.Errorf("%q is read as %q, want %q", header, got, want)
		}
	}
	if id := toolcall.ParseTrace(good).ID(); id != "0af7651916cd43dd8448eb211c80319c" || toolcall.Trace("").ID() != "" {
		t.Errorf("the id is %q", id)
	}
	ctx := toolcall.WithTrace(t.Context(), "")
	if toolcall.TraceOf(ctx) != "" || toolcall.TraceOf(toolcall.WithTrace(ctx, good)) != good {
		t.Error("the context does not contain the trace")
	}
}
