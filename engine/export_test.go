package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/engine/internal/approve"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Remembered returns the rules remembered from answers in a session.
func (e *Engine) Remembered(s message.SessionID) []message.PermissionRule {
	return e.view.Rules(&toolcall.Call{Key: toolcall.Key{Space: e.space, Session: s}})
}

// Membership asks the engine's directory.
func (e *Engine) Membership(ctx context.Context, by toolcall.Principal) (Membership, error) {
	groups, source, err := e.groupsOf(ctx, by)
	return Membership{Groups: groups, Source: source}, err
}

// Meeting returns a policy that makes the engine enforce only the duties in met.
func Meeting(p Policy, met ...permission.Duty) Policy { return dutiful{p, met} }

// StepAt returns the current step in the plan of a call's approval request.
var StepAt = approve.StepAt

// ShownText returns what people see of a worker's progress line.
var ShownText = shownText

// KeepResponses limits how many responses the ledger of reviewers keeps for time windows.
// Call it before Start.
func (e *Engine) KeepResponses(n int) { e.view.Reviewers.Keep(n) }

// SaveSnapshot takes a snapshot now.
func (e *Engine) SaveSnapshot(ctx context.Context) error { return e.snapshots.save(ctx) }

// KeepShortSnapshots takes snapshots even of journals that would be too short for one.
func (e *Engine) KeepShortSnapshots() { e.snapshots.least = 1 }

// SnapshotAt is the sequence of the last snapshot that the engine took or began from.
func (e *Engine) SnapshotAt() uint64 { return e.snapshots.at }

// Sequence is the sequence up to which the engine has read its journal.
func (e *Engine) Sequence() uint64 { return e.view.Sequence() }

// Knowledge is everything that an engine knows of its journal, as text. Two engines that
// read the same records know the same.
func (e *Engine) Knowledge() string {
	var out string
	e.store.Pause(func() {
		v := view.TakeSnapshot(e.view, func() {})
		slices.Sort(v.Calls)
		v.Replies = slices.DeleteFunc(v.Replies, func(r view.ReplyAt) bool { // a request may have read its completion from the journal again
			state, _ := e.view.ReplyState(toolcall.Key{Space: e.space, Session: r.Session, Reply: r.Reply})
			return state != nil && state.Completed
		})
		slices.SortFunc(v.Replies, func(a, b view.ReplyAt) int {
			return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Reply, b.Reply))
		})
		slices.SortFunc(v.Sessions, func(a, b view.SessionAt) int { return cmp.Compare(a.Session, b.Session) })
		slices.Sort(v.Standing)
		slices.SortFunc(v.Since, func(a, b view.GrantedAt) int { return cmp.Compare(a.ID, b.ID) })
		slices.SortFunc(v.Granted, func(a, b view.GrantedAt) int { return cmp.Compare(a.ID, b.ID) })
		r := e.view.Reviewers.State()
		slices.SortFunc(r.Open, func(a, b reviewers.OpenState) int { return cmp.Compare(a.Call.String(), b.Call.String()) })
		a, events := e.activity.State()
		text, err := json.MarshalIndent(map[string]any{"view": v, "reviewers": r, "activity": a, "events": fmt.Sprintf("%x", events)}, "", " ")
		if err != nil {
			panic(err)
		}
		out = strings.NewReplacer(": null", ": []", ": {}", ": []").Replace(string(text))
		for _, x := range v.Sessions {
			key := toolcall.Key{Space: e.space, Session: x.Session}
			out += fmt.Sprint(x.Session, e.Remembered(x.Session))
			open := e.view.OpenCalls()
			slices.SortFunc(open, inOrderOfProposal)
			for _, c := range open {
				if c.SessionKey() == key {
					n, known := e.view.CountUpTo(c)
					out += fmt.Sprintf("\n%s %d (%v) of %v, complete %v, phase %q", c.Key, n, known, len(e.view.CallsOf(c.Key)), e.view.HasAllOf(c.ReplyKey()), e.view.ReplyPhase(c.ReplyKey()))
				}
			}
		}
		open, blocked, returned := e.view.Counts()
		out += fmt.Sprintf("\n%d open, %d blocked, %d returned", open, blocked, returned)
	})
	return out
}
