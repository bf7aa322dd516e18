package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// shown is what show --json prints.
type shown struct {
	message.ShowReply
	Explain *message.ExplainReply `json:"explain,omitzero"`
}

// explained asks why a call was decided as it was: where remembered rules
// allowed it, or why says so.
func explained(ctx context.Context, c engine.Client, call *message.Call, why bool) (*message.ExplainReply, error) {
	if !why && len(call.Decision.Leases()) == 0 {
		return nil, nil
	}
	x, err := c.Explain(ctx, message.ExplainRequest{V: 1, Key: call.Key})
	if err != nil {
		return nil, err
	}
	if !why {
		x.Recorded, x.Trace, x.Withheld = nil, nil, ""
	}
	return &x, nil
}

// reliedText names the remembered rules without which a call would not have
// been allowed.
func reliedText(out *term.Out, x *message.ExplainReply) string {
	if x == nil {
		return ""
	}
	var b strings.Builder
	for _, s := range x.Leases {
		l := s.Lease
		text := fmt.Sprintf("%s, %s, given by %s, %s, until %s", out.Name(term.SafeLine(string(l.ID))), leaseStateText(out, l, time.Now()),
			term.SafeLine(strings.Join(givenBy(l), ", ")), term.SafeLine(l.Text()), leaseEnd(l))
		fmt.Fprintf(&b, "  %s %s\n", out.Dim(fmt.Sprintf("%-10s", "rule used")), text)
	}
	return b.String()
}

// printRecorded prints how the policy came to the decision on record.
func printRecorded(env *environment, x *message.ExplainReply) error {
	if x.Recorded == nil {
		return nil
	}
	e, err := readTrace(x.Recorded)
	var more struct {
		Truncated bool `json:"truncated"`
	}
	if err == nil {
		err = strictjson.UnmarshalOpen(x.Recorded, &more)
	}
	if err != nil {
		return fmt.Errorf("read the explanation on record: %w", err)
	}
	text := "  the policy that decided judged it then:"
	if more.Truncated {
		text = "  the policy that decided judged it then (shortened, for it was too long to be kept):"
	}
	if err := env.printf("%s\n", env.out.Dim(text)); err != nil {
		return err
	}
	return printExplanation(env, e)
}

// printTrace prints how the policy in force judges a call.
func printTrace(env *environment, x *message.ExplainReply) error {
	if x.Trace == nil {
		return env.printf("  %s %s\n", env.out.Dim("explained: no,"), term.SafeLine(x.Withheld))
	}
	e, err := readTrace(x.Trace)
	if err != nil {
		return fmt.Errorf("read the explanation: %w", err)
	}
	text := "  the policy in force judges it now:"
	if x.Decision != nil && x.Decision.Bundle != e.Bundle {
		text = "  the policy in force, which is not the one that decided, judges it now:"
	}
	if err := env.printf("%s\n", env.out.Dim(text)); err != nil {
		return err
	}
	return printExplanation(env, e)
}

// readTrace reads an explanation as far as it is printed.
func readTrace(raw message.RawJSON) (*permission.Explanation, error) {
	var e permission.Explanation
	var more struct {
		Requirement struct {
			Users     []string `json:"users"`
			Approvers []struct {
				Rule   string   `json:"rule"`
				Users  []string `json:"users"`
				Groups []string `json:"groups"`
			} `json:"approvers"`
			Quorum           int                 `json:"quorum"`
			ExcludeRequester bool                `json:"exclude_requester"`
			ExcludeEditor    bool                `json:"exclude_editor"`
			Signed           bool                `json:"signed"`
			ExpiryMS         int64               `json:"expiry_ms"`
			OnExpiry         permission.OnExpiry `json:"on_expiry"`
		} `json:"requirement"`
	}
	if err := strictjson.UnmarshalOpen(raw, &e); err != nil {
		return nil, err
	}
	if err := strictjson.UnmarshalOpen(raw, &more); err != nil {
		return nil, err
	}
	r := more.Requirement
	e.Requirement = permission.Requirement{
		Users: r.Users, Quorum: r.Quorum, ExcludeRequester: r.ExcludeRequester, ExcludeEditor: r.ExcludeEditor,
		Signed: r.Signed, Expiry: time.Duration(r.ExpiryMS) * time.Millisecond, OnExpiry: r.OnExpiry,
	}
	for _, s := range r.Approvers {
		e.Requirement.Approvers = append(e.Requirement.Approvers, permission.ApproverSet{Rule: s.Rule, Users: s.Users, Groups: s.Groups})
	}
	return &e, nil
}
