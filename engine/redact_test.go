package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const secret = "0-8-1-5"

func redactCases() []engineCase {
	return []engineCase{
		{"people never see what is hidden", hiddenFromPeople},
		{"calls that are not decided", hiddenUndecided},
		{"streamed arguments", hiddenStreamed},
		{"streamed arguments of a call that cannot be read", hiddenStreamedUnread},
		{"arguments of a call that cannot be read", hiddenUnread},
		{"edited around", hiddenEdited},
		{"denied later by a policy that hides nothing", hiddenFromLaterDenial},
		{"a path into a text", hiddenThroughText},
		{"a result cannot be guessed from its digest", hiddenResultDigest},
		{"an answer that is sent again", answeredAgain},
		{"another answer with the id of the first", answeredOtherwise},
		{"another answer with other terms", answeredWithTerms},
		{"another answer with other rules", answeredWithRules},
		{"another answer with another result", respondedOtherwise},
	}
}

func pinRule() permission.Rule {
	return permission.Rule{Name: "pin", Tools: []string{deploy, note, typed}, Behavior: message.BehaviorAsk, Redact: []string{"args.pin"}}
}

// sees returns everything that a principal can read of the space, as one text.
func (r *replica) sees(role toolcall.Role) string {
	r.w.Helper()
	p := r.as(role, "bot")
	var out []any
	list, err := p.List(r.w.Context(), toolcall.ListRequest{All: true, Session: "s"})
	r.w.must(err)
	open, err := p.List(r.w.Context(), toolcall.ListRequest{})
	r.w.must(err)
	events, err := p.Events(r.w.Context(), toolcall.EventsRequest{Session: "s"})
	r.w.must(err)
	wait, err := p.Wait(r.w.Context(), toolcall.WaitRequest{Session: "s", Reply: "r", TimeoutMS: 1})
	r.w.must(err)
	out = append(out, list, open, events, wait)
	for _, c := range list.Calls {
		show, err := p.Show(r.w.Context(), toolcall.ShowRequest{Key: c.Key})
		r.w.must(err)
		out = append(out, show)
	}
	text, err := strictjson.Marshal(out)
	r.w.must(err)
	return string(text)
}

func (r *replica) wantHidden() {
	r.w.Helper()
	for _, role := range []toolcall.Role{toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor} {
		if text := r.sees(role); strings.Contains(text, secret) || strings.Contains(text, `"salt"`) {
			r.w.Errorf("%s sees the hidden value: %s", role, text)
		}
	}
	if !strings.Contains(r.sees(toolcall.RoleRuntime), secret) {
		r.w.Errorf("the runtime does not see its own arguments")
	}
}

func hiddenFromPeople(w *world) {
	w.policy.use(w, pinRule())
	e := w.engine()
	input := `{"pin":"` + secret + `","n":1}`
	raw := e.propose(call("c", deploy, input))[0]
	e.wantHidden()
	list, err := e.ann().List(w.Context(), toolcall.ListRequest{})
	w.must(err)
	q := list.Calls[0]
	if d, err := q.Request.Digest(); err != nil || d != q.Digest || d != raw.Digest {
		w.Errorf("the digest cannot be recomputed from what is shown: %s, %v", d, err)
	}
	for _, response := range []toolcall.Response{{Key: q.Key, Kind: toolcall.ResponseApprove, Digest: "sha256:other"}} {
		_, err := e.ann().SubmitResponse(w.Context(), response)
		text, _ := json.Marshal(w.refusal(err, message.ErrDigest))
		if strings.Contains(string(text), secret) || !strings.Contains(string(text), q.Digest) {
			w.Errorf("the error shows %s", text)
		}
	}
	c := e.answers("ann", approve(q))
	if strings.Contains(c.Input, secret) {
		w.Errorf("the answer returns %s", c.Input)
	}
	w.wantResult(e.finishedFor(toolcall.RoleRuntime, q.Key), message.ToolResultSuccess, secret) // the real arguments ran
	w.wantRuns(q.Key, 1)
}

// finishedFor waits like finished, and returns the call as a role sees it.
func (r *replica) finishedFor(role toolcall.Role, key toolcall.Key) *toolcall.Call {
	r.w.Helper()
	r.finished(key)
	s, err := r.as(role, "bot").Show(r.w.Context(), toolcall.ShowRequest{Key: key})
	r.w.must(err)
	return s.Call
}

// hiddenUndecided covers calls without an approval request: one that waits for others, one
// that does not fit its schema, and one whose arguments are not JSON.
func hiddenUndecided(w *world) {
	w.policy.use(w, pinRule())
	e := w.engine()
	e.propose(call("a", note, `{"n":1}`), call("b", note, `{"pin":"`+secret+`"}`), call("c", typed, `{"pin":"`+secret+`"}`), call("d", deploy, `{"pin":"`+secret+``))
	e.wantHidden()
}

func hiddenStreamed(w *world) {
	w.policy.use(w, pinRule())
	e := w.engine()
	emit := func(events ...string) {
		w.Helper()
		var raw []message.RawJSON
		for _, ev := range events {
			raw = append(raw, message.RawJSON(ev))
		}
		_, err := e.bot().Emit(w.Context(), toolcall.EmitRequest{Session: "s", Reply: "r", Events: raw})
		w.must(err)
	}
	event := func(kind, id, more string) string {
		return `{"type":"TOOL_CALL_` + kind + `","reply_id":"r","tool_call_id":"` + id + `"` + more + `}`
	}
	emit(event("START", "c", `,"tool_call_name":"deploy"`), event("DELTA", "c", `,"delta":"{\"pin\":\"`+secret+`\""`), event("DELTA", "c", `,"delta":"}"`))
	if text := e.sees(toolcall.RoleAuditor); strings.Contains(text, secret) {
		w.Errorf("the streamed arguments are visible before their call is known: %s", text)
	}
	emit(event("START", "d", `,"tool_call_name":"echo"`), event("DELTA", "d", `,"delta":"{\"plain\":1}"`), event("END", "d", ``))
	emit(event("START", "f", `,"tool_call_name":"deploy"`), event("DELTA", "f", `,"delta":"{\"pin\":\"`+secret+`\"}"`), event("END", "f", ``))
	seen := func() (out []string) {
		page, err := e.as(toolcall.RoleAuditor, "eve").Events(w.Context(), toolcall.EventsRequest{Session: "s"})
		w.must(err)
		for _, ev := range page.Events {
			out = append(out, fmt.Sprint(ev.Seq, string(ev.Event)))
		}
		return out
	}
	before := seen()
	e.propose(call("c", deploy, `{"pin":"`+secret+`"}`), call("d", typed, `{"plain":1}`), call("f", deploy, `{"pin":"`+secret+`"}`))
	if after := seen(); !slices.Equal(before, after[:len(before)]) {
		w.Errorf("a live reader gets\n%v\nand a later one\n%v", before, after)
	}
	emit(event("END", "c", ``))
	e.wantHidden()
	if text := e.sees(toolcall.RoleAuditor); !strings.Contains(text, `{\"pin\":\"[redacted hmac`) || !strings.Contains(text, `{\"plain\":1}`) {
		w.Errorf("the streamed arguments are not returned redacted: %s", text)
	}
	e.propose(call("g", deploy, `{"pin":"`+secret+`"}`)) // before its events, so its first record comes too early for readers
	emit(event("START", "g", `,"tool_call_name":"deploy"`), event("DELTA", "g", `,"delta":"{\"pin\":\"`+secret+`\"}"`), event("END", "g", ``))
	e.wantHidden()
	if text := strings.Join(seen(), "\n"); !strings.Contains(text[strings.Index(text, `"tool_call_id":"g","tool_call_name"`):], `"tool_call_id":"g","delta":"{\"pin\":\"[redacted hmac`) {
		w.Errorf("the arguments of a call that was proposed before it was streamed are lost: %s", text)
	}
}

// hiddenStreamedUnread reads the events when the policy no longer hides anything.
func hiddenStreamedUnread(w *world) {
	w.policy.use(w, pinRule())
	e := w.engine()
	late, reach := lateEngine(w)
	defer reach()
	e.propose(call("c", deploy, `{"pin":"`+secret+`"}`))
	_, err := e.bot().Emit(w.Context(), toolcall.EmitRequest{Session: "s", Reply: "r", Events: []message.RawJSON{
		message.RawJSON(`{"type":"TOOL_CALL_DELTA","reply_id":"r","tool_call_id":"c","delta":"{\"pin\":\"` + secret + `\"}"}`)}})
	w.must(err)
	w.policy.use(w, rules()...)
	late.wantUnread()
}

// hiddenUnread reads the events when the first record of a call hides nothing: a later decision, which
// cannot be read, may.
func hiddenUnread(w *world) {
	e := w.engine()
	late, reach := lateEngine(w)
	defer reach()
	e.propose(call("a", note, `{"n":1}`), call("c", note, `{"pin":"`+secret+`"}`))
	late.wantUnread()
}

// lateEngine returns an engine whose view does not have the calls yet, and which cannot read them from
// the journal.
func lateEngine(w *world) (late *replica, reach func()) {
	late = w.engine()
	reach = late.cord.lag()
	late.cord.onLast(func(key toolcall.Key) error {
		if key.Call != "" {
			return cutError("last")
		}
		return nil
	})
	return late, reach
}

// wantUnread checks that the events have empty arguments.
func (r *replica) wantUnread() {
	r.w.Helper()
	events, err := r.as(toolcall.RoleAuditor, "eve").Events(r.w.Context(), toolcall.EventsRequest{Session: "s"})
	r.w.must(err)
	if text, _ := json.Marshal(events); strings.Contains(string(text), secret) || !strings.Contains(string(text), "TOOL_CALL_DELTA") {
		r.w.Errorf("the auditor gets %s", text)
	}
}

// hiddenEdited lets an approver edit arguments that contain hidden values.
func hiddenEdited(w *world) {
	w.policy.use(w, pinRule())
	e := w.engine()
	input := `{"pin":"` + secret + `","n":1}`
	e.propose(call("c", deploy, input))
	list, err := e.ann().List(w.Context(), toolcall.ListRequest{})
	w.must(err)
	q := list.Calls[0]
	e.refuses("ann", edit(q, strings.Replace(q.Input, `"n":1`, `"n":"[redacted]"`, 1)), message.ErrInvalid)
	e.answers("ann", edit(q, strings.Replace(q.Input, `"n":1`, `"n":2`, 1)))
	c := e.finishedFor(toolcall.RoleRuntime, q.Key)
	if want := `{"pin":"` + secret + `","n":2}`; c.Input != want || c.Digest == q.Digest {
		w.Errorf("%s runs, want %s", c.Input, want)
	}
	e.wantHidden()
	e.propose(call("d", deploy, input))
	d, err := e.ann().Show(w.Context(), toolcall.ShowRequest{Key: w.key("d")})
	w.must(err)
	e.answers("ann", edit(d.Call, d.Call.Input)) // nothing changed, so this counts as an approval
	e.finished(d.Call.Key)
	w.wantPath(d.Call.Key, "propose+ask approve+start result")
	if same := w.policy.Redacts(); !same {
		w.Error(errors.New("the policy of the test hides nothing"))
	}
}

// hiddenFromLaterDenial checks that a value that was hidden in the approval request stays
// hidden in the denial by a later policy that hides nothing and repeats the value.
func hiddenFromLaterDenial(w *world) {
	w.policy.use(w, pinRule())
	e := w.engine()
	q := e.propose(call("c", deploy, `{"pin":"`+secret+`"}`))[0]
	w.policy.use(w, permission.Rule{Name: "closed", Tools: []string{deploy}, Behavior: message.BehaviorDeny, Message: "'not with ' + string(args.pin)"})
	e.answers("ann", approve(q))
	if c := e.finished(q.Key); c.Decision.Rule != "closed" || c.Result.State != message.ToolResultDenied {
		w.Errorf("%s, want a denial by the rule closed", describe(c))
	}
	e.wantHidden()
}

// hiddenThroughText checks that a text is hidden as a whole if a redacted path leads into it.
func hiddenThroughText(w *world) {
	w.policy.use(w, rule("card", func(r *permission.Rule) { r.Redact = []string{"args.card.number"} }))
	e := w.engine()
	e.propose(call("c", deploy, `{"card":"`+secret+`","n":1}`))
	e.wantHidden()
	shown, err := e.ann().Show(w.Context(), toolcall.ShowRequest{Key: w.key("c")})
	w.must(err)
	q := shown.Call
	if d, err := q.Request.Digest(); err != nil || d != q.Digest {
		w.Errorf("the digest cannot be recomputed from what is shown: %s, %v", d, err)
	}
	e.answers("ann", edit(q, strings.Replace(q.Input, `"n":1`, `"n":2`, 1)))
	if c, want := e.finishedFor(toolcall.RoleRuntime, q.Key), `{"card":"`+secret+`","n":2}`; c.Input != want {
		w.Errorf("%s runs, want %s", c.Input, want)
	}
	e.wantHidden()
}

func hiddenResultDigest(w *world) {
	w.policy.use(w, append(rules(), rule("card", func(r *permission.Rule) { r.Tools, r.Redact = []string{askRemote}, []string{"args.pin"} }))...)
	e := w.engine()
	open := e.submit("a", remote)
	e.start(open, "w1", "x")
	e.answers("ann", approve(e.ask("b", askRemote, `{"pin":"`+secret+`"}`)))
	hidden := w.known(w.key("b")) // as its worker gets it
	e.start(hidden, "w1", "y")
	for claim, c := range map[string]*toolcall.Call{"x": open, "y": hidden} {
		for range 2 { // the same result again gets the same reply
			r, err := e.worker("w1").Result(w.Context(), resultRequest(c, claim, secret))
			if err != nil || !r.Stored {
				w.Errorf("the result of %s: %+v, %v", c.Key, r, err)
			}
		}
		other, err := e.worker("w1").Result(w.Context(), resultRequest(c, claim, "another"))
		if err != nil || other.Stored {
			w.Errorf("another result of %s: %+v, %v", c.Key, other, err)
		}
	}
	bare, sealed := e.finished(open.Key).ResultDigest, e.finished(hidden.Key).ResultDigest
	if !strings.HasPrefix(bare, "sha256:") || sealed != w.known(hidden.Key).SealResult(bare) || strings.Contains(sealed, strings.TrimPrefix(bare, "sha256:")) || !strings.HasPrefix(sealed, "hmac-sha256:") {
		w.Errorf("the digests of the same result are %s and %s", bare, sealed)
	}
	text, err := json.Marshal(w.records())
	w.must(err)
	if strings.Count(string(text), bare) != strings.Count(string(text), `"result_digest":"`+bare) {
		w.Errorf("a note contains the bare digest")
	}
}

// answeredAgain checks that an answer with an id counts once, for every outcome of the approval
// request, and that the id gives access to nothing else.
func answeredAgain(w *world) {
	w.policy.use(w, rule("pin", func(r *permission.Rule) { r.Redact, r.Quorum = []string{"args.pin"}, 2 }))
	e, other := w.engine(), w.engine()
	e.propose(call("c", deploy, `{"pin":"`+secret+`","n":1}`))
	shown, err := e.ann().Show(w.Context(), toolcall.ShowRequest{Key: w.key("c")})
	w.must(err)
	q := shown.Call
	resp := edit(q, strings.Replace(q.Input, `"n":1`, `"n":2`, 1))
	resp.ID = "one"
	after := e.answers("ann", resp)
	size := len(w.records())
	if again := other.answers("ann", resp); again.Digest != after.Digest || len(again.Votes) != 1 {
		w.Errorf("sent again, the answer returns %s, want the approval request %s", describe(again), after.Digest)
	}
	w.wantSize(size)
	e.refuses("bob", resp, message.ErrDigest)
	no := reject(after)
	no.ID = "one"
	e.refuses("ann", no, message.ErrConflict)
	plain := approve(q)
	plain.ID = "one"
	e.refuses("ann", plain, message.ErrConflict)
	no.ID = strings.Repeat("x", 129)
	e.refuses("ann", no, message.ErrTooLarge)
	b := approve(after)
	b.ID = "two"
	e.answers("bob", b)
	e.finished(q.Key)
	if c := e.answers("bob", b); c.State != message.ToolCallFinished || c.Result.State != message.ToolResultSuccess {
		w.Errorf("sent again after the end, the answer returns %s", describe(c))
	}
}

// answeredOtherwise checks that a second response with the id of the first is refused: its sender
// must not believe that it had an effect.
func answeredOtherwise(w *world) {
	w.policy.use(w, rule("two", func(r *permission.Rule) { r.Quorum = 3 }))
	e := w.engine()
	e.propose(call("c", deploy, `{"n":1}`))
	first := approve(e.state(w.key("c"), message.ToolCallAsking))
	first.ID = "one"
	e.answers("ann", first)
	edited := first
	input := `{"n":2}`
	edited.Input = &input
	e.refuses("ann", edited, message.ErrConflict)
	same := `{"n":1}`
	edited.Input = &same
	e.answers("ann", edited)
	edited.ID, edited.Input = "two", &input
	after := e.answers("ann", edited)
	e.answers("ann", edited)
	edited.Input = &same
	e.refuses("ann", edited, message.ErrConflict)
	edited.Input = &input
	third := edit(after, `{"n":3}`)
	third.ID = "two" // bob's own: an id is unique for each person
	after = e.answers("bob", third)
	e.answers("bob", third)
	e.answers("ann", edited)
	no := *edited.Input + " "
	third.Input = &no
	e.refuses("bob", third, message.ErrConflict)
	e.answers("cy", approve(after))
	e.refuses("bob", third, message.ErrConflict)
	to := toolcall.Response{Key: after.Key, Digest: after.Digest, Kind: toolcall.ResponseDelegate, To: "ann", ID: "three"}
	e.answers("dora", to)
	e.answers("dora", to)
	to.To = "cy"
	e.refuses("dora", to, message.ErrConflict)
}

// answeredWithTerms is answeredOtherwise for what an approval remembers.
func answeredWithTerms(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Quorum, r.Remember.Uses = 3, 3 }))
	e := w.engine()
	q := e.ask("c", deploy, `{"n":1}`)
	plain, terms, last := approve(q), approve(q), approve(q)
	plain.ID, terms.ID, last.ID = "plain", "terms", "last"
	terms.Remember = &toolcall.StandingTerms{}
	e.answers("ann", plain)
	e.answers("ann", plain)
	plain.Remember = &toolcall.StandingTerms{}
	e.refuses("ann", plain, message.ErrConflict)
	for range 2 { // open, then finished
		e.answers("bob", terms)
		other := terms
		for _, other.Remember = range []*toolcall.StandingTerms{
			nil, {Scope: toolcall.ScopeSpace}, {Uses: 2}, {Until: time.Now().Add(time.Minute)}, {Budget: &toolcall.Budget{Path: "args.n", Limit: "2"}}, {Rules: []message.PermissionRule{{ToolName: deploy}}},
		} {
			e.refuses("bob", other, message.ErrConflict)
		}
		e.answers("bob", terms)
		e.answers("cy", last)
		e.finished(q.Key)
	}
}

// answeredWithRules is answeredOtherwise for suggested rules.
func answeredWithRules(w *world) {
	e := w.engine()
	q := e.ask("c", deploy, `{"n":1}`)
	if len(q.Suggested) == 0 {
		w.Fatal("no rule is suggested")
	}
	resp := approve(q)
	resp.ID = "one"
	with := resp
	with.Rules = q.Suggested
	e.answers("ann", resp)
	e.finished(q.Key)
	e.refuses("ann", with, message.ErrConflict)
	e.answers("ann", resp)
	other := e.ask("d", deploy, `{"n":2}`)
	with.Key, with.Digest = other.Key, other.Digest
	e.answers("ann", with)
	e.finished(other.Key)
	e.answers("ann", with)
	with.Rules = nil
	e.refuses("ann", with, message.ErrConflict)
}

// respondedOtherwise is answeredOtherwise for the result that a person supplies.
func respondedOtherwise(w *world) {
	e := w.engine()
	q := e.ask("c", deploy, `{"n":1}`)
	resp := toolcall.Response{Key: q.Key, Digest: q.Digest, Kind: toolcall.ResponseRespond, Output: "one", ID: "one"}
	e.answers("ann", resp)
	e.answers("ann", resp)
	resp.Output = "two"
	e.refuses("ann", resp, message.ErrConflict)
}

var _ engine.Policy = (*policy)(nil)
