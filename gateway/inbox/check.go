package inbox

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// fault is what is wrong with arguments, and where: a JSON pointer.
type fault struct{ At, Text string }

// faulty is an error that knows several places: that of package permission.
type faulty interface {
	error
	Faults() iter.Seq2[string, string]
}

// check judges arguments while they are edited: what the tool's schema says,
// and what they change. Nothing is decided by it: the engine looks again when
// they are sent.
func (in *Inbox) check(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	f, err := readForm(r)
	if err != nil {
		return err
	}
	k, err := keyOf(r.PostForm, p.Space.ID)
	if err != nil {
		return err
	}
	c, err := p.As(message.RoleApprover)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerWithin)
	defer cancel()
	shown, err := c.Show(ctx, message.ShowRequest{V: 1, Key: k})
	if err != nil {
		return err
	}
	v := panel{form: *f}
	v.Faults, v.Diff = judge(p.Space, shown.Call, f.Input)
	return in.write(w, http.StatusOK, "verdict", v)
}

// judge gives what is wrong with edited arguments, and what they change.
func judge(space *gateway.Space, c *message.Call, input string) ([]fault, []change) {
	if err := asked.CheckInput(input); err != nil {
		return []fault{faultOf(err)}, nil
	}
	changes := diff(asked.Editable(c.Input), input)
	i := slices.IndexFunc(space.Tools, func(t engine.Tool) bool { return t.Name == c.Tool })
	if i < 0 || space.Tools[i].Schema == nil || c.Hides() { // hidden values are put back by the engine, and judged then
		return nil, changes
	}
	err := space.Tools[i].Schema.Validate([]byte(input))
	if err == nil {
		return nil, changes
	}
	var out []fault
	if several := faulty(nil); errors.As(err, &several) {
		for at, text := range several.Faults() {
			out = append(out, fault{at, text})
		}
	}
	if len(out) == 0 {
		out = []fault{{Text: err.Error()}}
	}
	return out, changes
}

func faultOf(err error) fault {
	if e, ok := errors.AsType[*strictjson.Error](err); ok {
		return fault{e.Path, e.Err.Error()}
	}
	return fault{"", err.Error()}
}
