package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// No operation that decides shares a class with one that reads.
func TestClasses(t *testing.T) {
	for op, want := range map[*api.Operation]api.Class{
		api.SubmitResponse.Operation: api.ClassDecide, api.Interrupt.Operation: api.ClassStop, api.Result.Operation: api.ClassWork,
		api.List.Operation: api.ClassRead, api.Wait.Operation: api.ClassWait,
	} {
		if op.Class != want {
			t.Errorf("%s is in class %s, want %s", op.Name, op.Class, want)
		}
	}
	for _, op := range api.Table() {
		if reads := op.Class == api.ClassRead || op.Class == api.ClassWait; reads && op.Changes {
			t.Errorf("%s changes something but is in class %s", op.Name, op.Class)
		}
	}
}

// Names and routes are unique, and no transport offers an operation to a role that the row does
// not name.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	once := func(what string) {
		if seen[what] {
			t.Errorf("%s is duplicated", what)
		}
		seen[what] = true
	}
	for _, op := range api.Table() {
		once("operation " + op.Name)
		for role := range op.NATS {
			if !slices.Contains(op.Roles, role) {
				t.Errorf("%s: a %s can send it over NATS but may not use it", op.Name, role)
			}
		}
		if h := op.HTTP; h != nil {
			once("route " + h.ID)
			once(h.Method + " " + h.Path)
			if op.Changes && h.Method == http.MethodGet {
				t.Errorf("%s: %s, changes %v", op.Name, h.Method, op.Changes)
			}
		}
	}
}

// A request that is decoded in parts is one request.
func TestDecode(t *testing.T) {
	got, err := api.Revoke.Decode(1<<10, []byte(`{"reason":"no"}`), []byte(`{"session_id":"s","reply_id":"r","tool_call_id":"c"}`))
	want := toolcall.RevokeRequest{Key: toolcall.Key{Session: "s", Reply: "r", Call: "c"}, Reason: "no"}
	if err != nil || got != any(want) {
		t.Errorf("decoded %+v, %v", got, err)
	}
	for _, bad := range []string{`{"Reason":"no"}`, `{"reason":"a","reason":"b"}`, `[]`, `{"reason":"` + strings.Repeat("x", 1<<10) + `"}`} {
		if got, err := api.Revoke.Decode(1<<10, []byte(bad)); err == nil {
			t.Errorf("%.40s was decoded as %+v", bad, got)
		}
	}
}

// A reply that is too large is requested again with half the limit, down to one.
func TestHalve(t *testing.T) {
	var r any = toolcall.ListRequest{Limit: 0}
	reply := toolcall.ListReply{Calls: make([]*toolcall.Call, 9)}
	var sizes []int
	for {
		next, ok := api.List.Halve(r, reply)
		if !ok {
			break
		}
		r = next
		n := r.(toolcall.ListRequest).Limit
		sizes = append(sizes, n)
		reply.Calls = reply.Calls[:n]
	}
	if !slices.Equal(sizes, []int{4, 2, 1}) {
		t.Errorf("sizes %v", sizes)
	}
	if _, ok := api.Show.Halve(toolcall.ShowRequest{}, toolcall.ShowReply{}); ok {
		t.Error("a reply that is not a page was halved")
	}
}

// The time for which a request is held has the same limit on every transport.
func TestHold(t *testing.T) {
	for _, tt := range []struct{ asked, want int64 }{{0, 100}, {-1, 100}, {50, 50}, {101, 100}} {
		if got := api.Wait.Hold(toolcall.WaitRequest{TimeoutMS: tt.asked}, 100).(toolcall.WaitRequest).TimeoutMS; got != tt.want {
			t.Errorf("wait: %d is held for %d, want %d", tt.asked, got, tt.want)
		}
	}
	for _, tt := range []struct{ asked, want int64 }{{0, 0}, {50, 50}, {101, 100}} {
		if got := api.Events.Hold(toolcall.EventsRequest{WaitMS: tt.asked}, 100).(toolcall.EventsRequest).WaitMS; got != tt.want {
			t.Errorf("events: %d is held for %d, want %d", tt.asked, got, tt.want)
		}
	}
}
