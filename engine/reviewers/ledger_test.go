package reviewers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// story makes the event records of one call.
type story struct {
	call toolcall.Call
	at   time.Time
}

func requiredFor(id string, r toolcall.Requirement) *story {
	return &story{at: start, call: toolcall.Call{
		Key: toolcall.Key{Session: "s", Reply: "r", Call: message.CallID(id)}, State: message.ToolCallAsking, Digest: "d1",
		Request: &toolcall.ApprovalRequest{Requirement: r}, ProposedAt: start.Add(-time.Second),
	}}
}

func (s *story) record() *toolcall.EventRecord {
	c := s.call
	return &toolcall.EventRecord{Call: &c, At: s.at}
}

// says adds a person's vote, the given time after the start.
func (s *story) says(after time.Duration, v toolcall.Vote) *story {
	s.at = start.Add(after)
	v.At, v.Digest = s.at, s.call.Digest
	s.call.Votes = append(slices.Clone(s.call.Votes), v)
	return s
}

func (s *story) ends() *story { s.call.State = message.ToolCallFinished; return s }

func by(name string, kind toolcall.ResponseKind, groups ...string) toolcall.Vote {
	return toolcall.Vote{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: name}, Kind: kind, Groups: groups}
}

func person(r toolcall.LoadReply, name string) toolcall.ReviewerLoad { return find(r.People, name) }

func find(all []toolcall.ReviewerLoad, name string) toolcall.ReviewerLoad {
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	return toolcall.ReviewerLoad{}
}

func TestLedger(t *testing.T) {
	var l reviewers.Ledger
	ops := toolcall.Requirement{Quorum: 2, Approvers: []toolcall.ApproverSet{{Rule: "large", Groups: []string{"ops"}, Users: []string{"ann", "bob"}}}}
	s := requiredFor("a", ops)
	l.Record(s.record())
	anyone := requiredFor("b", toolcall.Requirement{})
	l.Record(anyone.record())
	r := l.Report(start)
	if r.Open != 2 || r.Unassigned != 1 || person(r, "ann").Open != 1 || person(r, "bob").Open != 1 || find(r.Groups, "ops").Open != 1 {
		t.Fatalf("after the approval requests: %+v", r)
	}

	l.Record(s.says(time.Second, by("ann", toolcall.ResponseApprove, "ops")).record())
	r = l.Report(start.Add(time.Second))
	if r.Open != 2 || person(r, "ann").Open != 0 || person(r, "bob").Open != 1 {
		t.Errorf("after ann's approval the request does not wait for bob only: %+v", r)
	}
	l.Record(s.says(10*time.Second, by("bob", toolcall.ResponseApprove)).ends().record())
	l.Record(anyone.says(30*time.Second, by("bob", toolcall.ResponseReject)).ends().record())

	r = l.Report(start.Add(61 * time.Second))
	want := toolcall.LoadReply{
		At: start.Add(61 * time.Second),
		People: []toolcall.ReviewerLoad{
			{Name: "ann", Answered: 1, Approved: 1, Within2S: 1, TotalMS: 1000, MedianMS: 1002, LastHour: 1},
			{Name: "bob", Answered: 2, Approved: 1, Rejected: 1, TotalMS: 40000, MedianMS: 9871, LastMinute: 2, LastHour: 2},
		},
		Groups: []toolcall.ReviewerLoad{{Name: "ops", Answered: 1, Approved: 1, Within2S: 1, TotalMS: 1000, MedianMS: 1002}},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	if ann, bob := person(r, "ann"), person(r, "bob"); ann.ApproveRate() != 1 || ann.FastShare() != 1 || bob.ApproveRate() != 0.5 || bob.FastShare() != 0 {
		t.Errorf("rates: %+v", r.People)
	}
}

// An edit that asks again begins a new approval request: its time starts again, and the
// responses to the old request are counted once.
func TestLedgerAskedAnew(t *testing.T) {
	var l reviewers.Ledger
	s := requiredFor("a", toolcall.Requirement{})
	l.Record(s.record())
	edit := by("ann", toolcall.ResponseApprove)
	edit.Edited = true
	s.says(time.Hour, edit)
	s.call.Digest = "d2"
	l.Record(s.record())
	l.Record(s.says(time.Hour+time.Second, by("bob", toolcall.ResponseApprove)).ends().record())
	l.Record(s.record()) // once more
	r := l.Report(s.at)
	if ann, bob := person(r, "ann"), person(r, "bob"); ann.TotalMS != 3600_000 || bob.TotalMS != 1000 || ann.Answered+bob.Answered != 2 {
		t.Errorf("%+v", r.People)
	}
}

func TestLedgerPassedOn(t *testing.T) {
	var l reviewers.Ledger
	s := requiredFor("a", toolcall.Requirement{Users: []string{"ann", "bob"}})
	l.Record(s.record())
	over := by("ann", toolcall.ResponseDelegate)
	over.To = "bob"
	l.Record(s.says(time.Second, over).record())
	r := l.Report(s.at)
	if ann, bob := person(r, "ann"), person(r, "bob"); ann.Open != 0 || ann.Passed != 1 || ann.Answered != 0 || bob.Open != 1 {
		t.Errorf("%+v", r.People)
	}
	l.Record(s.says(2*time.Second, by("bob", toolcall.ResponseSkip)).record())
	if r := l.Report(s.at); person(r, "bob").Open != 0 || r.Open != 1 {
		t.Errorf("%+v", r)
	}
}

func TestLedgerPassesOver(t *testing.T) {
	var l reviewers.Ledger
	l.Record(&toolcall.EventRecord{Reply: &toolcall.ReplyState{}})
	noted := requiredFor("a", toolcall.Requirement{}).record()
	noted.Note = &toolcall.Note{What: "late_result"}
	l.Record(noted)
	l.Record(requiredFor("b", toolcall.Requirement{}).says(0, by("ann", toolcall.ResponseReject)).ends().record()) // the ledger never saw it open
	if r := l.Report(start); r.Open != 0 || len(r.People) != 0 {
		t.Errorf("%+v", r)
	}
}

// The number of names is bounded across all approval requests.
func TestLedgerBoundsNames(t *testing.T) {
	var l reviewers.Ledger
	for i := range 3 * reviewers.MaxNames {
		s := requiredFor(fmt.Sprint(i), toolcall.Requirement{Users: []string{fmt.Sprintf("user%d", i)}})
		l.Record(s.record())
		l.Record(s.says(time.Second, by(fmt.Sprintf("user%d", i), toolcall.ResponseReject)).ends().record())
	}
	if r := l.Report(start); len(r.People) != reviewers.MaxNames || r.Others != reviewers.MaxNames || r.Open != 0 {
		t.Errorf("%d people, %d others, %d open", len(r.People), r.Others, r.Open)
	}
}

// The ledger agrees with plain sums over all answers, for every order of calls and if every
// event record comes twice.
func TestLedgerAgainstSums(t *testing.T) {
	names := []string{"ann", "bob", "eve"}
	kinds := []toolcall.ResponseKind{toolcall.ResponseApprove, toolcall.ResponseReject, toolcall.ResponseRespond, toolcall.ResponseSkip}
	rapid.Check(t, func(t *rapid.T) {
		var l reviewers.Ledger
		took := map[string][]time.Duration{}
		sums := map[string]toolcall.ReviewerLoad{}
		var calls []*story
		for i := range rapid.IntRange(1, 30).Draw(t, "calls") {
			s := requiredFor(fmt.Sprint(i), toolcall.Requirement{})
			l.Record(s.record())
			calls = append(calls, s)
		}
		for _, s := range rapid.Permutation(calls).Draw(t, "order") {
			name, kind := rapid.SampledFrom(names).Draw(t, "who"), rapid.SampledFrom(kinds).Draw(t, "kind")
			after := time.Duration(rapid.Int64Range(0, int64(40*24*time.Hour)).Draw(t, "after"))
			s.says(after, by(name, kind))
			if kind != toolcall.ResponseSkip {
				s.ends()
			}
			l.Record(s.record())
			l.Record(s.record())
			sum := sums[name]
			sum.Name = name
			switch kind {
			case toolcall.ResponseApprove:
				sum.Approved++
			case toolcall.ResponseReject:
				sum.Rejected++
			case toolcall.ResponseRespond:
				sum.Responded++
			default:
				sum.Passed++
			}
			if kind != toolcall.ResponseSkip {
				sum.Answered++
				sum.TotalMS += after.Milliseconds()
				if after <= 2*time.Second {
					sum.Within2S++
				}
				took[name] = append(took[name], after)
			}
			sums[name] = sum
		}
		r := l.Report(start.Add(1000 * time.Hour * 24))
		for _, got := range r.People {
			want := sums[got.Name]
			exact := middle(took[got.Name])
			if d := got.MedianMS - exact; d > exact/20+1 || -d > exact/20+1 {
				t.Fatalf("median %d ms, the exact median %d", got.MedianMS, exact)
			}
			want.MedianMS = got.MedianMS
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
		}
		if len(r.People) != len(sums) {
			t.Fatalf("%d people, want %d", len(r.People), len(sums))
		}
	})
}

// middle is the lower median in milliseconds.
func middle(all []time.Duration) int64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[(len(all)-1)/2].Milliseconds()
}
