package node

import (
	"context"
	"time"

	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/message"
)

// Load folds the whole journal.
func (r *Reader) Load(ctx context.Context, q message.LoadRequest) (message.LoadReply, error) {
	if err := q.Validate(); err != nil {
		return message.LoadReply{}, err
	}
	sum, err := reviewers.Read(ctx, r.journal, q.Since, q.Until)
	if err != nil {
		return message.LoadReply{}, err
	}
	return sum.Report(time.Now().UTC()), nil
}
