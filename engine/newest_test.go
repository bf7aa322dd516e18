package engine_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func newestCases() []engineCase {
	return []engineCase{
		{"the newest finished calls first", listNewest},
		{"pages of the newest calls stay complete while calls finish", listNewestPages},
		{"a late result does not move a call", listNewestNoted},
	}
}

// pagesOf reads all pages of a list and returns the names of the calls.
func (r *replica) pagesOf(req toolcall.ListRequest, between func()) []message.CallID {
	r.w.Helper()
	var out []message.CallID
	for range 1000 {
		page, err := r.operator().List(r.w.Context(), req)
		r.w.must(err)
		for _, c := range page.Calls {
			if c.Open() {
				r.w.Errorf("%s is %s", c.Call, c.State)
			}
			out = append(out, c.Call)
		}
		if req.After = page.Next; req.After == 0 {
			return out
		}
		between()
	}
	r.w.Fatal("the list does not end")
	return nil
}

// listNewest checks that calls are listed in the order in which they ended, not in which they
// were proposed, for several sizes of memory and pages, and with conditions.
func listNewest(w *world) {
	engines := []*replica{w.engine(engine.WithKeep(0)), w.engine(engine.WithKeep(3)), w.engine()}
	e := engines[2]
	open := e.ask("late", pay, `{"amount":500}`)
	want := []message.CallID{}
	for i := range 7 {
		id := message.CallID(fmt.Sprint("c", i))
		e.finished(e.propose(call(id, echo, `{}`))[0].Key)
		want = append([]message.CallID{id}, want...)
	}
	no := e.ask("no", pay, `{"amount":500}`)
	_, err := e.ann().SubmitResponse(w.Context(), reject(no))
	w.must(err)
	_, err = e.bob().SubmitResponse(w.Context(), approve(open))
	w.must(err)
	e.finished(open.Key)
	e.ask("open", pay, `{"amount":500}`)
	want = append([]message.CallID{"late", "no"}, want...)
	for n, e := range engines {
		for _, row := range []struct {
			r    toolcall.ListRequest
			want []message.CallID
		}{
			{toolcall.ListRequest{}, want},
			{toolcall.ListRequest{Tool: pay}, want[:2]},
			{toolcall.ListRequest{By: "bob"}, want[:1]},
			{toolcall.ListRequest{By: "ann"}, want[1:2]},
			{toolcall.ListRequest{By: "nn"}, nil},
			{toolcall.ListRequest{Outcomes: []toolcall.Cause{toolcall.CauseReject}}, want[1:2]},
			{toolcall.ListRequest{Results: []message.ToolResultState{message.ToolResultDenied}}, want[1:2]},
			{toolcall.ListRequest{Tools: []string{pay, rm}, Until: time.Now().Add(time.Hour)}, want[:2]},
			{toolcall.ListRequest{Rules: []string{"nope"}}, nil},
			{toolcall.ListRequest{Words: "500 PAY"}, want[:2]},
			{toolcall.ListRequest{Words: "500 nope"}, nil},
			{toolcall.ListRequest{Mine: true}, nil},
			{toolcall.ListRequest{Since: time.Now().Add(time.Hour)}, nil},
			{toolcall.ListRequest{Outcomes: []toolcall.Cause{toolcall.CauseReject, toolcall.CauseResult}}, want},
		} {
			for _, limit := range []int{1, 2, 100} {
				row.r.Newest, row.r.Limit = true, limit
				w.until(row.want, func() bool { return slices.Equal(e.pagesOf(row.r, func() {}), row.want) })
			}
		}
		page, err := e.as(toolcall.RoleRuntime, "stranger").List(w.Context(), toolcall.ListRequest{Newest: true})
		if err != nil || len(page.Calls) != 0 {
			w.Errorf("engine %d shows a stranger %d calls, %v", n, len(page.Calls), err)
		}
		_, err = e.operator().List(w.Context(), toolcall.ListRequest{Newest: true, Sort: toolcall.SortTool})
		w.wantErr(err, message.ErrInvalid)
		_, err = e.operator().List(w.Context(), toolcall.ListRequest{Newest: true, Outcomes: []toolcall.Cause{"nope"}})
		w.wantErr(err, message.ErrInvalid)
	}
}

// listNewestPages checks that a call that was finished when the first page was read is on
// exactly one page, although other calls finish between pages and push calls out of memory.
func listNewestPages(w *world) {
	for _, keep := range []int{0, 4, 100} {
		e := w.engine(engine.WithKeep(keep))
		var want []message.CallID
		for i := range 9 {
			id := message.CallID(fmt.Sprintf("k%d-%d", keep, i))
			e.finished(e.propose(call(id, echo, `{}`))[0].Key)
			want = append([]message.CallID{id}, want...)
		}
		n := 0
		got := e.pagesOf(toolcall.ListRequest{Newest: true, Limit: 2}, func() {
			n++
			e.finished(e.propose(call(message.CallID(fmt.Sprintf("k%d-new%d", keep, n)), echo, `{}`))[0].Key)
		})
		if len(got) < 9 || !slices.Equal(got[:9], want) {
			w.Errorf("with %d in memory the pages have %v, want %v first", keep, got, want)
		}
		slices.Sort(got)
		if len(slices.Compact(slices.Clone(got))) != len(got) {
			w.Errorf("with %d in memory a call is on two pages: %v", keep, got)
		}
	}
}

// listNewestNoted checks that a record with only a note does not count as the end of its call.
func listNewestNoted(w *world) {
	e := w.engine(engine.WithKeep(1))
	first := e.propose(call("first", echo, `{}`))[0]
	e.finished(first.Key)
	e.finished(e.propose(call("second", echo, `{}`))[0].Key)
	_, _ = e.worker("late").Result(w.Context(), toolcall.ResultRequest{Key: first.Key, Attempt: 1, Claim: "late", Result: message.ToolResultBlock{}}) // the engine notes or refuses it
	if got := e.pagesOf(toolcall.ListRequest{Newest: true, Limit: 1}, func() {}); !slices.Equal(got, []message.CallID{"second", "first"}) {
		w.Errorf("the pages have %v", got)
	}
}
