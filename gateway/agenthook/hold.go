package agenthook

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The holder of an open call is the agent's call for which it stands. First that is the call that
// was proposed. When its hook stops waiting, it releases the call, and the next call with the
// same arguments claims it. Releases and claims are events in the journal, and their order there
// decides. An agent can repeat the event of one call while an earlier request about it still ends:
// then only the release of the last one counts. What began a call stays its holder.
//
// Invariant: at most one of the agent's calls is told to run on an approved call. The events only
// say which one should try. The holder is the claim of the start, so the engine refuses any other,
// also from another gateway or after a restart, and answers a repeated event alike.

// The names of the events.
const (
	eventReleased   = "hook.released"
	eventClaimed    = "hook.claimed"
	eventRanUnasked = "hook.ran_unasked"
)

// settleWithin bounds the time to record a release after the agent has gone.
const settleWithin = 10 * time.Second

// isInvocation reports whether the agent gave the call no id.
func isInvocation[T ~string](id T) bool { return strings.HasPrefix(string(id), "hook-") }

// maxHolder bounds the name of a holder: the engine takes no longer claim.
const maxHolder = 128

// holderName names the agent's call id as a holder. Long ids are hashed.
func holderName(id message.CallID) string {
	if len(id) <= maxHolder {
		return string(id)
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// holder returns the holder that the event is about.
func (g *gate) holder() string { return cmp.Or(g.about, holderName(g.id())) }

func (g *gate) emit(ctx context.Context, k toolcall.Key, name string, value map[string]any) error {
	raw, err := strictjson.Marshal(&message.Custom{EventHeader: message.NewHeader(""), Name: name, Value: value})
	if err != nil {
		return err
	}
	_, err = g.c.Emit(ctx, toolcall.EmitRequest{Session: k.Session, Reply: k.Reply, Events: []message.RawJSON{raw}})
	return err
}

// holderOf returns the agent's call for which c stands, or "" if no hook waits for c.
func (g *gate) holderOf(ctx context.Context, c *toolcall.Call) (string, error) {
	if c.Started() {
		return c.Attempt.Claim, nil
	}
	holder, waiter := holderName(c.Call), ""
	r := toolcall.EventsRequest{Session: c.Session, Reply: c.Reply, After: c.First}
	_, err := agent.EachEvent(ctx, g.c, r, func(_ uint64, e message.Event) error {
		ev, ok := e.(*message.Custom)
		if !ok || ev.Value["tool_call_id"] != string(c.Call) {
			return nil
		}
		by, _ := ev.Value["holder"].(string)
		of, _ := ev.Value["waiter"].(string)
		switch {
		case ev.Name == eventReleased && by == holder && of == waiter:
			holder = ""
		case ev.Name == eventClaimed && (holder == "" || by == holder):
			holder, waiter = by, of
		}
		return nil
	})
	return holder, err
}

// claim makes the event's call the holder of c, if no hook waits for c for another call. After it,
// only the release of this request counts.
func (g *gate) claim(ctx context.Context, c *toolcall.Call) (mine bool, err error) {
	holder, err := g.holderOf(ctx, c)
	if err != nil || c.Started() || holder != "" && holder != g.holder() {
		return holder == g.holder(), err
	}
	g.waiter = rand.Text()
	err = g.emitHold(ctx, c, eventClaimed)
	if err == nil {
		holder, err = g.holderOf(ctx, c)
	}
	if err != nil { // the claim may be recorded
		return false, errors.Join(err, g.release(context.WithoutCancel(ctx), c))
	}
	if holder != g.holder() {
		g.waiter = "" // the next release must name no claim that this request lost
		return false, nil
	}
	return true, nil
}

func (g *gate) mustClaim(ctx context.Context, c *toolcall.Call) error {
	mine, err := g.claim(ctx, c)
	if err == nil && !mine {
		err = refuse(c, "taken up by a later one with the same arguments")
	}
	return err
}

// keep checks that the event's call still holds c, and claims c if nothing holds it.
func (g *gate) keep(ctx context.Context, c *toolcall.Call) error {
	if holder, err := g.holderOf(ctx, c); err != nil || holder == g.holder() {
		return err
	}
	return g.mustClaim(ctx, c)
}

// release records that the event's call no longer waits for c.
func (g *gate) release(ctx context.Context, c *toolcall.Call) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	return g.emitHold(ctx, c, eventReleased)
}

func (g *gate) emitHold(ctx context.Context, c *toolcall.Call, name string) error {
	return g.emit(ctx, c.Key, name, map[string]any{"tool_call_id": string(c.Call), "holder": g.holder(), "waiter": g.waiter})
}
