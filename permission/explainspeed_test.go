package permission_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askance-dev/askance/permission"
)

// Explanations that are made concurrently, before any other, are equal. After the first
// explanation none compiles anything.
func TestExplanationsCompileOnce(t *testing.T) {
	const n = 40
	var rules []permission.Rule
	for i := range n {
		rules = append(rules, rule(fmt.Sprintf("r%02d", i), "ask", fmt.Sprintf(`args.a == "x%d" && args.b.size() > %d`, i, i)))
	}
	b := compile(t, everything(permission.Tool{Name: "t", Schema: schema(t, `{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}`)}), rules...)
	req := permission.Request{Tool: "t", Input: []byte(`{"a": "x3", "b": "12345"}`)}
	all := make([]*permission.Explanation, 4)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = b.Explain(t.Context(), req) })
	}
	wg.Wait()
	for _, x := range all {
		if diff := cmp.Diff(all[0], x, cmpopts.IgnoreFields(permission.Explanation{}, "Duration"), cmpopts.IgnoreUnexported(permission.Because{})); diff != "" {
			t.Fatalf("two explanations of one call differ:\n%s", diff)
		}
	}
	if all[0].Rule != "r03" || len(all[0].Trace) != n {
		t.Fatalf("%s by %s, %d rules traced", all[0].Decision, all[0].Rule, len(all[0].Trace))
	}
	allocations := testing.AllocsPerRun(5, func() { b.Explain(t.Context(), req) })
	t.Logf("%.0f allocations for each rule", allocations/n)
	if allocations > 200*n {
		t.Errorf("%.0f allocations with %d rules", allocations, n)
	}
}
