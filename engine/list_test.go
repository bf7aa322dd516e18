package engine_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// inboxTools are tools whose requests end at different times, or never.
var inboxTools = map[string]permission.Rule{
	"soon":  {Name: "soon", Expiry: time.Hour, Approvers: permission.Approvers{Users: []string{"ann"}}},
	"late":  {Name: "late", Expiry: 9 * time.Hour, Approvers: permission.Approvers{Groups: []string{"finance"}}},
	"later": {Name: "later", Expiry: 90 * time.Hour, Redact: []string{"args.pin"}},
}

// openInbox returns an engine with n open requests, ten in each session, for three tools and
// from four agents.
func openInbox(tb testing.TB, n int) *engine.Engine {
	tb.Helper()
	var rules []permission.Rule
	var tools []engine.Tool
	for name, r := range inboxTools {
		r.Tools, r.Behavior = []string{name}, message.BehaviorAsk
		rules = append(rules, r)
		tools = append(tools, engine.Tool{Tool: permission.Tool{Name: name}, ConcurrencySafe: true, Placement: toolcall.PlaceRemote})
	}
	policy, err := permission.Compile(permission.Policy{Rules: rules}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		tb.Fatal(err)
	}
	e, err := engine.New("default", engine.NewMemory(), policy, tools, engine.WithDirectory(engine.StaticDirectory{"fay": {"finance"}}))
	if err != nil {
		tb.Fatal(err)
	}
	if err := e.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Close() })
	for i := 0; i < n; i += 10 {
		proposeTen(tb, e, i)
	}
	return e
}

func proposeTen(tb testing.TB, e *engine.Engine, i int) {
	tb.Helper()
	r := toolcall.ProposeRequest{Session: message.SessionID(fmt.Sprint("s", i/10)), Reply: "r", Agent: []string{"", "ada", "bee", "cyd"}[i/10%4]}
	for k := range 10 {
		r.Calls = append(r.Calls, message.ToolCallBlock{ID: message.CallID(fmt.Sprint("c", i+k)), Name: []string{"later", "soon", "late"}[(i+k)%3], Input: fmt.Sprintf(`{"order":"A-%d","pin":"secret%d","note":"the customer asked for it twice"}`, i+k, i+k)})
	}
	if _, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(tb.Context(), r); err != nil {
		tb.Fatal(err)
	}
}

func approver(e *engine.Engine, name string) *engine.Port {
	return e.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: name})
}

// byOrder returns the comparison for a sort order of a list.
func byOrder(order string) func(a, b *toolcall.Call) int {
	order, down := strings.CutPrefix(order, "-")
	return func(a, b *toolcall.Call) int {
		n := 0
		switch order {
		case toolcall.SortDeadline:
			n = a.Request.Requirement.Ends().Compare(b.Request.Requirement.Ends())
		case toolcall.SortAge:
			n = b.ProposedAt.Compare(a.ProposedAt)
		case toolcall.SortProposed:
			n = a.ProposedAt.Compare(b.ProposedAt)
		case toolcall.SortTool:
			n = cmp.Compare(a.Tool, b.Tool)
		case toolcall.SortAgent:
			if (a.Agent == "") != (b.Agent == "") {
				return cmp.Compare(b.Agent, "") - cmp.Compare(a.Agent, "")
			}
			n = cmp.Compare(a.Agent, b.Agent)
		case toolcall.SortChanged:
			n = cmp.Compare(a.Seq, b.Seq)
		}
		if down {
			n = -n
		}
		return n
	}
}

// In every order each call is listed once, although calls come and go between the pages.
func TestSortedPages(t *testing.T) {
	next := 200
	e := openInbox(t, next)
	ann := approver(e, "ann")
	for _, sort := range toolcall.Sorts() {
		for _, order := range []string{sort, "-" + sort} {
			var before []message.CallID
			for _, c := range openCalls(t, ann) {
				before = append(before, c.Call)
			}
			var got []*toolcall.Call
			ended := map[message.CallID]bool{}
			r := toolcall.ListRequest{Sort: order, Limit: 7}
			for pages := 0; ; pages++ {
				page, err := ann.List(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if (page.Counts != nil) != (pages == 0) || pages == 0 && page.Counts[toolcall.PhaseAsking] != len(before) {
					t.Errorf("%s: page %d counts %v of %d", order, pages, page.Counts, len(before))
				}
				got = append(got, page.Calls...)
				if r.Cursor = page.Cursor; r.Cursor == "" {
					break
				}
				last := page.Calls[len(page.Calls)-1]
				if pages%5 == 0 && last.Tool == "soon" { // the call that the cursor names ends
					if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: last.Key, Digest: last.Digest, Kind: toolcall.ResponseReject}); err != nil {
						t.Fatal(err)
					}
					ended[last.Call] = true
				}
				if pages%10 == 3 {
					proposeTen(t, e, next)
					next += 10
				}
			}
			if !slices.IsSortedFunc(got, byOrder(order)) {
				t.Errorf("%s is not in order", order)
			}
			seen := map[message.CallID]int{}
			for _, c := range got {
				seen[c.Call]++
			}
			for _, id := range before {
				if seen[id] != 1 {
					t.Errorf("%s: %s is on %d pages", order, id, seen[id])
				}
			}
			if len(ended) == 0 && sort != toolcall.SortAgent && sort != toolcall.SortTool {
				t.Logf("%s: no call of a cursor ended", order)
			}
		}
	}
}

func openCalls(t *testing.T, c engine.Client) []*toolcall.Call {
	t.Helper()
	all, err := engine.ListAll(t.Context(), c, toolcall.ListRequest{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestListConditions(t *testing.T) {
	e := openInbox(t, 60)
	ann, fay := approver(e, "ann"), approver(e, "fay")
	all := openCalls(t, ann)
	first := all[1] // of the tool soon
	if _, err := ann.SubmitResponse(t.Context(), toolcall.Response{Key: first.Key, Digest: first.Digest, Kind: toolcall.ResponseSkip}); err != nil {
		t.Fatal(err)
	}
	count := func(c engine.Client, r toolcall.ListRequest) int {
		t.Helper()
		page, err := c.List(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Calls)
	}
	for what, row := range map[string]struct {
		c    engine.Client
		r    toolcall.ListRequest
		want int
	}{
		"tools":                      {ann, toolcall.ListRequest{Tools: []string{"soon", "late"}}, 40},
		"agents":                     {ann, toolcall.ListRequest{Agents: []string{"ada"}}, 20},
		"one session":                {ann, toolcall.ListRequest{Sessions: []message.SessionID{"s1"}}, 10},
		"sessions":                   {ann, toolcall.ListRequest{Sessions: []message.SessionID{"s1", "s2", "s9"}}, 20},
		"rules":                      {ann, toolcall.ListRequest{Rules: []string{"late"}}, 20},
		"since":                      {ann, toolcall.ListRequest{Since: all[0].ProposedAt}, 60},
		"until":                      {ann, toolcall.ListRequest{Until: all[0].ProposedAt}, 0},
		"words":                      {ann, toolcall.ListRequest{Words: "CUSTOMER a-17"}, 1},
		"a word of the tool":         {ann, toolcall.ListRequest{Words: "soon"}, 20},
		"hidden words":               {ann, toolcall.ListRequest{Words: "secret3"}, 6}, // of 11 calls; the tool later hides it
		"words of the runtime":       {e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}), toolcall.ListRequest{Words: "secret3"}, 11},
		"two conditions":             {ann, toolcall.ListRequest{Tools: []string{"soon"}, Agents: []string{"bee", "cyd"}}, 6},
		"ann's, but one she skipped": {ann, toolcall.ListRequest{Mine: true}, 39},
		"of finance":                 {fay, toolcall.ListRequest{Mine: true}, 40},
		"another phase":              {ann, toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseQueued}}, 0},
	} {
		if got := count(row.c, row.r); got != row.want {
			t.Errorf("%s: %d calls, want %d", what, got, row.want)
		}
	}
	page, err := ann.List(t.Context(), toolcall.ListRequest{Tools: []string{"soon"}, Phases: []toolcall.Phase{toolcall.PhaseQueued}})
	if err != nil || page.Counts[toolcall.PhaseAsking] != 20 || len(page.Counts) != 1 {
		t.Errorf("the counts must ignore the phase: %v, %v", page.Counts, err)
	}
	one, err := ann.List(t.Context(), toolcall.ListRequest{Sort: toolcall.SortTool, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]toolcall.ListRequest{
		"an unknown order":        {Sort: "colour"},
		"a foreign cursor":        {Sort: toolcall.SortAge, Cursor: one.Cursor},
		"a broken cursor":         {Sort: toolcall.SortTool, Cursor: "x"},
		"a cursor without a sort": {Cursor: one.Cursor},
		"two cursors":             {Sort: toolcall.SortTool, After: 3},
	} {
		if _, err := ann.List(t.Context(), r); message.AsError("", err).Code != message.CodeInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).List(t.Context(), toolcall.ListRequest{Mine: true}); message.AsError("", err).Code != message.CodeInvalid {
		t.Errorf("a runtime lists with Mine: %v", err)
	}
}

func BenchmarkSortedPage(b *testing.B) {
	e := openInbox(b, 10_000)
	ann := approver(e, "ann")
	for _, r := range []toolcall.ListRequest{{Sort: toolcall.SortDeadline, Limit: 100}, {Limit: 100}, {Words: "nothing has this", Limit: 100}, {Mine: true, Sort: toolcall.SortDeadline, Limit: 100}} {
		b.Run(fmt.Sprintf("%s,%s,%v", r.Sort, strings.ReplaceAll(r.Words, " ", "_"), r.Mine), func(b *testing.B) {
			for b.Loop() {
				if _, err := ann.List(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
