package blocktest

import (
	"bytes"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
)

// Join returns what is asked from either form of an approval_request, or from both: delta
// is nil if there was none. Actions, reviews and time limit come from the delta if it has
// them, otherwise from the start. It refuses two that disagree, because then different
// clients would show different things.
func Join(start *blockstream.ApprovalRequest, delta *blockstream.ApprovalDelta) (*blockstream.ApprovalDelta, error) {
	out := &blockstream.ApprovalDelta{Actions: start.Actions, ReviewConfigs: start.ReviewConfigs}
	if delta != nil {
		if start.Actions != nil && delta.Actions != nil && !sameActions(start.Actions, delta.Actions) {
			return nil, message.Errorf(message.CodeInvalid, "read approval_request", "%.100q: start and delta name different actions", start.ApprovalKey)
		}
		*out = *delta
		if out.Actions == nil {
			out.Actions = start.Actions
		}
		if out.ReviewConfigs == nil {
			out.ReviewConfigs = start.ReviewConfigs
		}
	}
	for _, c := range out.ReviewConfigs {
		if out.TimeoutSeconds == 0 || c.Timeout > 0 && c.Timeout < out.TimeoutSeconds {
			out.TimeoutSeconds = c.Timeout
		}
	}
	if len(out.Actions) == 0 {
		return nil, message.Errorf(message.CodeInvalid, "read approval_request", "%.100q has no actions", start.ApprovalKey)
	}
	return out, nil
}

// sameActions compares names, the bytes of the arguments, and ids if both forms have them.
func sameActions(a, b []blockstream.Action) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		ids := a[i].ToolUseID == b[i].ToolUseID || a[i].ToolUseID == "" || b[i].ToolUseID == ""
		if !ids || a[i].Name != b[i].Name || !bytes.Equal(a[i].Args, b[i].Args) {
			return false
		}
	}
	return true
}
