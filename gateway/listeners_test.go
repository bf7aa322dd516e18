package gateway_test

import (
	"testing"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/toolcall"
)

func TestListeners(t *testing.T) {
	var l gateway.Listeners
	l.Tell(toolcall.ProgressRequest{Text: "no listener"})
	var first, second []string
	stopFirst := l.Add(func(p toolcall.ProgressRequest) { first = append(first, p.Text) })
	stopSecond := l.Add(func(p toolcall.ProgressRequest) { second = append(second, p.Text) })
	l.Tell(toolcall.ProgressRequest{Text: "a"})
	stopFirst()
	stopFirst()
	l.Tell(toolcall.ProgressRequest{Text: "b"})
	stopSecond()
	l.Tell(toolcall.ProgressRequest{Text: "c"})
	if len(first) != 1 || len(second) != 2 || second[1] != "b" {
		t.Errorf("heard %q and %q", first, second)
	}
}
