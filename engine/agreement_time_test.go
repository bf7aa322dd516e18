package engine_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// staff is a directory whose groups change; it remembers who was in which group when.
type staff struct {
	mu  sync.Mutex // guards all below
	log []staffing // in the order of time
}

type staffing struct {
	from   time.Time
	groups map[string][]string
}

func (s *staff) Groups(_ context.Context, by toolcall.Principal) (engine.Membership, error) {
	return engine.Membership{Groups: s.groupsAt(by.Name, time.Now()), Source: "staff"}, nil
}

func (s *staff) groupsAt(name string, at time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, l := range s.log {
		if !l.from.After(at) {
			out = l.groups[name]
		}
	}
	return out
}

func (s *staff) set(name string, groups []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string][]string{}
	if n := len(s.log); n > 0 {
		next = maps.Clone(s.log[n-1].groups)
	}
	next[name] = groups
	s.log = append(s.log, staffing{time.Now(), next})
}

// office is an approval request whose people, groups and engines change as time passes.
type office struct {
	*rapid.T
	journal *engine.Memory
	engines []*engine.Engine
	policy  engine.Policy
	rules   []permission.Rule
	staff   *staff
	call    *toolcall.Call
	digests []string
}

// workforce has two forms of the requester's and an approver's name.
var workforce = []string{"ann", "Ann", "bob", "cy", "dora", "bot", "BOT"}

func personalKey(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// TestAgreementOverTime: while time passes, groups change, engines stop and start, and several people
// answer at once, a call begins only if every rule has its approvals at that time.
func TestAgreementOverTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			o := newOffice(rt)
			defer func() {
				for _, e := range o.engines {
					_ = e.Close() // its error does not matter to a test
				}
			}()
			for range rapid.IntRange(1, 30).Draw(rt, "steps") {
				o.step()
				if o.audit(); o.call.State == message.ToolCallFinished {
					return
				}
			}
		})
	})
}

func newOffice(rt *rapid.T) *office {
	o := &office{T: rt, journal: engine.NewMemory(), staff: &staff{}}
	groups := []string{"red", "blue", "gray"}
	for _, name := range workforce {
		o.staff.set(name, rapid.SliceOfNDistinct(rapid.SampledFrom(groups), 0, 3, rapid.ID).Draw(rt, name))
	}
	for i := range rapid.IntRange(1, 3).Draw(rt, "rules") {
		r := permission.Rule{Name: fmt.Sprint("r", i), Tools: []string{"t"}, Behavior: message.BehaviorAsk, Quorum: rapid.IntRange(0, 3).Draw(rt, "quorum")}
		if rapid.Bool().Draw(rt, "groups") {
			r.Approvers.Groups = rapid.SliceOfNDistinct(rapid.SampledFrom(groups), 1, 2, rapid.ID).Draw(rt, "of groups")
		}
		if rapid.IntRange(0, 2).Draw(rt, "users") == 0 {
			r.Approvers.Users = rapid.SliceOfNDistinct(rapid.SampledFrom(workforce), 1, 4, rapid.ID).Draw(rt, "of users")
		}
		r.Approvers.ExcludeRequester = rapid.IntRange(0, 3).Draw(rt, "exclude requester") == 0
		r.Approvers.ExcludeEditor = rapid.IntRange(0, 3).Draw(rt, "exclude editor") == 0
		r.Signed = rapid.IntRange(0, 5).Draw(rt, "signed") == 0
		r.Expiry = time.Duration(rapid.IntRange(0, 4).Draw(rt, "expiry")) * time.Hour
		if len(r.Approvers.Groups)+len(r.Approvers.Users) > 0 && rapid.Bool().Draw(rt, "escalates") {
			for n := range rapid.IntRange(1, 2).Draw(rt, "escalations") {
				e := permission.Escalation{After: time.Duration(n+1) * 30 * time.Minute}
				e.To.Groups = []string{rapid.SampledFrom(groups).Draw(rt, "to")}
				r.Escalation = append(r.Escalation, e)
			}
			if r.Expiry > time.Hour && rapid.Bool().Draw(rt, "on expiry") {
				r.OnExpiry = permission.OnExpiryEscalate
			}
		}
		o.rules = append(o.rules, r)
	}
	policy, err := permission.Compile(permission.Policy{Rules: o.rules}, permission.Options{Enforced: engine.Duties()})
	if err != nil {
		rt.Skip(err)
	}
	o.policy = policy
	o.start()
	o.start()
	out, err := o.engines[0].As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"}).Propose(context.Background(), toolcall.ProposeRequest{Session: "s", Reply: "r",
		Calls: []message.ToolCallBlock{{ID: "c", Name: "t", Input: `{"n":0}`}}})
	if err != nil {
		rt.Fatal(err)
	}
	o.call = out.Calls[0]
	return o
}

func (o *office) start() {
	keys := toolcall.ApproverKeys{}
	for _, name := range workforce {
		keys[name] = toolcall.NewKeySet(personalKey(name).Public().(ed25519.PublicKey))
	}
	tool := engine.Tool{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal}
	e, err := engine.New("default", o.journal, o.policy, []engine.Tool{tool}, engine.WithDirectory(o.staff), engine.WithApproverKeys(func() toolcall.ApproverKeys { return keys }))
	if err != nil {
		o.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		o.Fatal(err)
	}
	o.engines = append(o.engines, e)
}

func (o *office) engine() *engine.Engine {
	return o.engines[rapid.IntRange(0, len(o.engines)-1).Draw(o.T, "engine")]
}

func (o *office) step() {
	switch rapid.IntRange(0, 9).Draw(o.T, "step") {
	case 0, 1:
		wait := time.Duration(rapid.IntRange(0, 6).Draw(o.T, "half hours")) * 30 * time.Minute
		time.Sleep(wait - time.Duration(rapid.IntRange(-1, 1).Draw(o.T, "early"))*time.Nanosecond)
		if rapid.Bool().Draw(o.T, "settle") {
			synctest.Wait()
		}
	case 2:
		name := rapid.SampledFrom(workforce).Draw(o.T, "person")
		time.Sleep(time.Nanosecond) // so that the time of a vote says in which groups the person was
		o.staff.set(name, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"red", "blue", "gray"}), 0, 3, rapid.ID).Draw(o.T, "groups"))
	case 3:
		i := rapid.IntRange(0, 1).Draw(o.T, "stops")
		if err := o.engines[i].Close(); err != nil {
			o.Fatal(err)
		}
		o.engines = slices.Delete(o.engines, i, i+1)
		o.start()
	default:
		var all sync.WaitGroup
		for range rapid.IntRange(1, 3).Draw(o.T, "at once") {
			by, resp := o.response()
			e := o.engine()
			all.Go(func() {
				_, _ = e.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: by}).SubmitResponse(context.Background(), resp) // the journal shows what it did
			})
		}
		all.Wait()
	}
}

func (o *office) response() (by string, resp toolcall.Response) {
	by = rapid.SampledFrom(workforce).Draw(o.T, "by")
	kinds := []toolcall.ResponseKind{toolcall.ResponseApprove, toolcall.ResponseApprove, toolcall.ResponseApprove, toolcall.ResponseApprove, toolcall.ResponseSkip, toolcall.ResponseDelegate, toolcall.ResponseRespond}
	resp = toolcall.Response{Key: o.call.Key, Kind: rapid.SampledFrom(kinds).Draw(o.T, "kind"), Digest: o.call.Digest}
	if len(o.digests) > 0 && rapid.IntRange(0, 5).Draw(o.T, "stale") == 0 {
		resp.Digest = rapid.SampledFrom(o.digests).Draw(o.T, "digest")
	}
	switch {
	case resp.Kind == toolcall.ResponseDelegate:
		resp.To = rapid.SampledFrom(workforce).Draw(o.T, "to")
	case resp.Kind != toolcall.ResponseApprove || o.call.Request == nil:
	case rapid.IntRange(0, 3).Draw(o.T, "edit") == 0:
		input := rapid.SampledFrom([]string{`{"n":0}`, `{"n":1}`}).Draw(o.T, "input")
		resp.Input = &input
	case o.call.Request.Requirement.Signed || rapid.IntRange(0, 5).Draw(o.T, "sign") == 0:
		lasts := time.Duration(rapid.IntRange(1, 4).Draw(o.T, "lasts")) * 30 * time.Minute
		s, err := toolcall.SignApproval(*o.call.Request, rapid.SampledFrom([]string{by, by, by, "ann"}).Draw(o.T, "signs"), time.Now().Add(lasts), personalKey(by))
		if err != nil {
			o.Fatal(err)
		}
		resp.Signature = s
	}
	return by, resp
}

// audit reads the whole history and judges it by the rules alone.
func (o *office) audit() {
	history, err := o.journal.History(context.Background(), o.call.Key)
	if err != nil {
		o.Fatal(err)
	}
	opened := time.Time{} // when the plan of the open request began
	var last *toolcall.Call
	o.digests = nil
	for _, entry := range history {
		c := entry.Record.Call
		if last != nil && last.State == message.ToolCallFinished {
			o.Fatal("a finished call changed")
		}
		for _, s := range entry.Record.Path {
			if s.Cause == string(toolcall.CauseAsk) && opened.IsZero() {
				opened = entry.Record.At
			}
			if s.Cause == string(toolcall.CauseApprove) || s.Cause == string(toolcall.CauseAllow) && last != nil {
				o.mustAgree(c, opened, entry.Record.At)
			}
			if s.Cause == string(toolcall.CauseRespond) {
				v := c.Votes[len(c.Votes)-1]
				only := c.Clone()
				only.Votes = []toolcall.Vote{v}
				only.Votes[0].Kind = toolcall.ResponseApprove
				o.mustAgree(only, opened, entry.Record.At)
			}
			if s.Cause == string(toolcall.CauseExpire) && (c.Request.Requirement.Ends().IsZero() || entry.Record.At.Before(c.Request.Requirement.Ends())) {
				o.Fatal("the request expired too early")
			}
		}
		if len(c.Votes) > 0 {
			o.mustBeEntitled(c.Votes[len(c.Votes)-1], opened)
		}
		if c.Digest != "" {
			o.digests = append(o.digests, c.Digest)
		}
		last = c
	}
	last.At(history[len(history)-1].Seq)
	o.call = last
}

// mustAgree checks the approvals of these arguments for each rule separately.
func (o *office) mustAgree(c *toolcall.Call, opened, at time.Time) {
	if digest, err := c.Request.Digest(); err != nil || digest != c.Digest || c.Request.Input != c.Input {
		o.Fatalf("the call that runs is not the one in the approval request: %s, %s, %v", digest, c.Digest, err)
	}
	votes := c.Votes
	editors := map[string]bool{}
	for i, v := range c.Votes {
		if v.Edited {
			votes = c.Votes[i:]
			editors[strings.ToLower(v.By.Name)] = true
		}
	}
	yes := map[string]toolcall.Vote{}
	for _, v := range votes {
		if v.Digest == c.Digest && !v.Edited || v.Edited && v.Made == c.Digest {
			yes[strings.ToLower(v.By.Name)] = v
		}
	}
	maps.DeleteFunc(yes, func(who string, v toolcall.Vote) bool {
		late := v.Signature != nil && !at.Before(v.Signature.Until)
		return v.Kind != toolcall.ResponseApprove || late || slices.ContainsFunc(o.rules, func(r permission.Rule) bool {
			return r.Approvers.ExcludeEditor && editors[who] || r.Approvers.ExcludeRequester && who == "bot" || r.Signed && v.Signature == nil
		})
	})
	for _, r := range o.rules {
		n := 0
		for _, v := range yes {
			if o.accepts(r, v.By.Name, opened, v.At) && slices.ContainsFunc(o.rules, func(r permission.Rule) bool { return o.accepts(r, v.By.Name, opened, v.At) }) {
				n++
			}
		}
		if n < max(r.Quorum, 1) {
			o.Fatalf("%s is allowed at %s with %d approvals for %+v: %+v", c.Input, at.Sub(opened), n, r, c.Votes)
		}
		if ends := o.ends(opened); !ends.IsZero() && !at.Before(ends) {
			o.Fatalf("%s is allowed at %s, and the request ended %s later", c.Input, at.Sub(opened), ends.Sub(opened))
		}
	}
}

// mustBeEntitled checks that some rule asked who voted, at that time.
func (o *office) mustBeEntitled(v toolcall.Vote, opened time.Time) {
	named := slices.ContainsFunc(o.rules, func(r permission.Rule) bool { return len(r.Approvers.Users)+len(r.Approvers.Groups) > 0 })
	excluded := slices.ContainsFunc(o.rules, func(r permission.Rule) bool { return r.Approvers.ExcludeRequester }) && strings.EqualFold(v.By.Name, "bot")
	asked := slices.ContainsFunc(o.rules, func(r permission.Rule) bool {
		return (!named || len(r.Approvers.Users)+len(r.Approvers.Groups) > 0) && o.accepts(r, v.By.Name, opened, v.At)
	})
	if excluded || !asked {
		o.Fatalf("%s by %s counted at %s", v.Kind, v.By.Name, v.At.Sub(opened))
	}
}

// accepts reports whether a rule asks a person at a time.
func (o *office) accepts(r permission.Rule, name string, opened, at time.Time) bool {
	groups := o.staff.groupsAt(name, at)
	in := func(a permission.Approvers) bool {
		return slices.Contains(a.Users, name) || slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(a.Groups, g) })
	}
	if len(r.Approvers.Users)+len(r.Approvers.Groups) == 0 {
		return true
	}
	onlyLast := o.extended() && !at.Before(opened.Add(o.expiry()))
	ok := in(r.Approvers) && !(onlyLast && (len(r.Escalation) > 0 || len(r.Approvers.Groups) > 0))
	for i, e := range r.Escalation {
		ok = ok || !at.Before(opened.Add(e.After)) && in(e.To) && (!onlyLast || i == len(r.Escalation)-1)
	}
	return ok
}

func (o *office) expiry() time.Duration {
	out := time.Duration(0)
	for _, r := range o.rules {
		if r.Expiry > 0 && (out == 0 || r.Expiry < out) {
			out = r.Expiry
		}
	}
	return out
}

// extended reports whether the request stays open after its expiry: all rules want that.
func (o *office) extended() bool {
	return o.expiry() > 0 && !slices.ContainsFunc(o.rules, func(r permission.Rule) bool { return r.OnExpiry != permission.OnExpiryEscalate })
}

func (o *office) ends(opened time.Time) time.Time {
	switch d := o.expiry(); {
	case d == 0:
		return time.Time{}
	case o.extended():
		return opened.Add(2 * d)
	default:
		return opened.Add(d)
	}
}
