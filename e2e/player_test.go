package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// playerArg is the first argument of this binary when it runs as a player: a runtime or an approver
// in its own process, which can be killed.
const playerArg = "player"

const (
	playerSign = "player works"
	calmFile   = "calm" // if the file exists, nothing is revoked or interrupted any more
	longTurn   = 20 * time.Second
)

// player is a runtime or an approver. It notes what it did in its notebook and continues from
// there after it was killed.
type player struct {
	engine.Client
	operator engine.Client // of an approver
	name     string
	dir      string
	book     *notebook
	stop     context.Context //nolint:containedctx // the life of the process
}

// playerMain is the main function of the process and returns the exit code. args are the role, name,
// URL of NATS, seed and folder.
func playerMain(args []string) int {
	err := playerRun(args)
	switch {
	case err == nil:
		return 0
	case temporary(err), errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout):
		fmt.Fprintln(os.Stderr, err)
		return tryLater
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func playerRun(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("player: %d arguments, want 5", len(args))
	}
	role, name, url, dir := toolcall.Role(args[0]), args[1], args[2], args[4]
	var err error
	if seed, err = strconv.ParseUint(args[3], 10, 64); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	p := &player{name: name, dir: dir, stop: ctx}
	if p.book, err = openNotebook(dir, name); err != nil {
		return err
	}
	if p.Client, err = playerClient(ctx, url, role, name); err != nil {
		return err
	}
	if role == toolcall.RoleApprover {
		if p.operator, err = playerClient(ctx, url, toolcall.RoleOperator, name+"-operator"); err != nil {
			return err
		}
	}
	fmt.Println(playerSign)
	if role == toolcall.RoleApprover {
		return p.approves()
	}
	return p.proposes()
}

func playerClient(ctx context.Context, url string, role toolcall.Role, name string) (engine.Client, error) {
	nc, err := bus.Connect(ctx, url, bus.ConnectOptions{Principal: name, Extra: []nats.Option{
		nats.CustomReconnectDelay(func(int) time.Duration { return 20 * ms }),
	}})
	if err != nil {
		return nil, err
	}
	return bus.NewClient(nc, space, toolcall.Principal{Role: role, Name: name})
}

func (p *player) calm() bool {
	_, err := os.Stat(filepath.Join(p.dir, calmFile))
	return err == nil
}

// done notes the outcome of a request. Refusals that say that the call has moved on are expected;
// other errors end the player.
func (p *player) done(n noted, err error, calls ...*toolcall.Call) error {
	n.Calls = ackNotes(calls)
	if err != nil {
		n.Error = err.Error()
	}
	return errors.Join(p.book.note(n), fatalOf(err))
}

func fatalOf(err error) error {
	if over(err) || temporary(err) || errors.Is(err, message.ErrInterrupted) || errors.Is(err, message.ErrNotFound) || errors.Is(err, message.ErrConflict) {
		return nil
	}
	return err
}

// proposes continues with the turn that was not finished when the previous process was killed.
func (p *player) proposes() error {
	notes, err := readNotes(filepath.Join(p.dir, p.name+notesEnd))
	if err != nil {
		return err
	}
	turn := 0
	for _, n := range notes {
		if n.Did == "turn" {
			turn = n.Turn + 1
		}
	}
	for ; p.stop.Err() == nil; turn++ {
		if err := p.turn(turn); err != nil {
			return fmt.Errorf("turn %d: %w", turn, err)
		}
	}
	return nil
}

// turn proposes, sometimes interrupts, and waits until the calls have ended or
// wait for an operator.
func (p *player) turn(turn int) error {
	d := newDice("campaign", fmt.Sprintf("%s %d", p.name, turn))
	r, err := p.proposal(d, turn)
	if err != nil {
		return err
	}
	if err := p.book.note(noted{Did: "begin", On: string(r.Reply), Turn: turn}); err != nil {
		return err
	}
	out, _, err := persist(requestLimit, "propose", func(ctx context.Context) (toolcall.ProposeReply, error) { return p.Propose(ctx, r) })
	if err := p.done(noted{Did: "propose", On: string(r.Reply), Turn: turn}, err, out.Calls...); err != nil {
		return err
	}
	interrupts, pause := d.pick(8) == 0, d.between(0, 400*ms)
	if interrupts && !p.calm() {
		<-time.After(pause)
		out, _, err := persist(requestLimit, "interrupt", func(ctx context.Context) (toolcall.InterruptReply, error) {
			return p.Interrupt(ctx, toolcall.InterruptRequest{Session: r.Session, Reply: r.Reply, Reason: "the campaign"})
		})
		if err := p.done(noted{Did: "interrupt", On: string(r.Reply), Turn: turn}, err, out.Calls...); err != nil {
			return err
		}
	}
	for began := time.Now(); p.stop.Err() == nil && time.Since(began) < longTurn; {
		out, _, err := persist(requestLimit, "list", func(ctx context.Context) (toolcall.ListReply, error) {
			return p.List(ctx, toolcall.ListRequest{Session: r.Session, Reply: r.Reply, All: true})
		})
		if err != nil {
			return err
		}
		if rests(out.Calls) {
			break
		}
		<-time.After(50 * ms)
	}
	<-time.After(d.between(0, 200*ms))
	return p.book.note(noted{Did: "turn", On: string(r.Reply), Turn: turn})
}

// rests reports whether all calls have ended, or one waits for an operator.
func rests(calls []*toolcall.Call) bool {
	return !slices.ContainsFunc(calls, (*toolcall.Call).Open) || slices.ContainsFunc(calls, func(c *toolcall.Call) bool { return c.Blocked != toolcall.NotBlocked })
}

// pads are the sizes by which the inputs of a campaign are padded.
var pads = []int{0, 0, 0, 0, 200, 200, 200, 3_000, 3_000, 20_000, 60_000}

// proposal returns the same proposal for the same seed, player and turn.
func (p *player) proposal(d *dice, turn int) (toolcall.ProposeRequest, error) {
	r := proposal("of-"+p.name, fmt.Sprintf("r%d", turn))
	for i := range 1 + d.pick(3) {
		in := d.input(d.pick(3) == 0)
		in.Forbid = !in.Ask && d.pick(15) == 0
		in.Before, in.After = in.Before*int64(1+d.pick(8)), in.After*int64(1+d.pick(8))
		in.Pad = d.text(pads[d.pick(len(pads))])
		raw, err := strictjson.Marshal(in)
		if err != nil {
			return r, err
		}
		r.Calls = append(r.Calls, message.ToolCallBlock{ID: message.CallID(fmt.Sprintf("c%d", i)), Name: d.tool(), Input: string(raw)})
	}
	return r, nil
}

// text returns n letters.
func (d *dice) text(n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte('a' + byte(d.pick(26)))
	}
	return b.String()
}

// approves answers approval requests, and sometimes revokes an approval.
func (p *player) approves() error {
	d := newDice("campaign", p.name)
	for p.stop.Err() == nil {
		open, _, err := persist(requestLimit, "list", func(ctx context.Context) (toolcall.ListReply, error) {
			return p.List(ctx, toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallAsking}})
		})
		if err != nil {
			return err
		}
		for _, c := range open.Calls {
			if d.pick(4) == 0 || p.voted(c) {
				continue
			}
			resp := p.answer(c)
			got, _, err := persist(requestLimit, "answer", func(ctx context.Context) (*toolcall.Call, error) { return p.SubmitResponse(ctx, resp) })
			if err := p.done(noted{Did: string(resp.Kind), On: c.Key.String()}, err, some(got, err)...); err != nil {
				return err
			}
		}
		if !p.calm() && d.pick(10) == 0 {
			if err := p.revokes(d); err != nil {
				return err
			}
		}
		<-time.After(d.between(30*ms, 150*ms))
	}
	return nil
}

func some(c *toolcall.Call, err error) []*toolcall.Call {
	if err != nil || c == nil {
		return nil
	}
	return []*toolcall.Call{c}
}

// voted reports whether the player has approved the open approval request.
func (p *player) voted(c *toolcall.Call) bool {
	return slices.ContainsFunc(c.Votes, func(v toolcall.Vote) bool { return v.By.Name == p.name && v.Digest == c.Digest })
}

// answer returns the same answer for the same seed, player and approval request.
func (p *player) answer(c *toolcall.Call) toolcall.Response {
	d := newDice("campaign", p.name+" "+c.Key.String()+" "+c.Digest)
	resp := toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove}
	switch d.pick(12) {
	case 0:
		resp.Kind, resp.Feedback = toolcall.ResponseReject, "no"
	case 1:
		if c.Request != nil && c.Request.Requirement.Quorum < 2 { // otherwise one person cannot supply the result
			resp.Kind, resp.Output = toolcall.ResponseRespond, "forty-two"
		}
	case 2, 3:
		edited := strings.Replace(c.Input, `"n":`, `"n":1`, 1)
		resp.Input = &edited
	case 4, 5, 6:
		if c.Request != nil && c.Request.Requirement.Remember != nil {
			resp.Remember = &toolcall.StandingTerms{Uses: 2}
		}
	}
	return resp
}

// revokes revokes a call that has not started, or a standing approval.
func (p *player) revokes(d *dice) error {
	standings, _, err := persist(requestLimit, "standing_approvals", func(ctx context.Context) (toolcall.StandingApprovalsReply, error) {
		return p.operator.StandingApprovals(ctx, toolcall.StandingApprovalsRequest{})
	})
	if err != nil {
		return err
	}
	if n := len(standings.StandingApprovals); n > 0 {
		id := standings.StandingApprovals[d.pick(n)].ID
		_, _, err := persist(requestLimit, "revoke", func(ctx context.Context) (*toolcall.StandingApproval, error) {
			return p.operator.RevokeStandingApproval(ctx, toolcall.RevokeStandingApprovalRequest{ID: id})
		})
		if err := p.done(noted{Did: revokedRule, On: string(id)}, err); err != nil {
			return err
		}
	}
	open, _, err := persist(requestLimit, "list", func(ctx context.Context) (toolcall.ListReply, error) {
		return p.operator.List(ctx, toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallSubmitted, message.ToolCallAllowed}})
	})
	if err != nil || len(open.Calls) == 0 {
		return err
	}
	c := open.Calls[d.pick(len(open.Calls))]
	got, _, err := persist(requestLimit, "revoke", func(ctx context.Context) (*toolcall.Call, error) {
		return p.operator.Revoke(ctx, toolcall.RevokeRequest{Key: c.Key, Reason: "the campaign"})
	})
	return p.done(noted{Did: "revoke call", On: c.Key.String()}, err, some(got, err)...)
}

// revokedRule notes a revocation; a note without an error means that it was acknowledged.
const revokedRule = "revoke rule"
