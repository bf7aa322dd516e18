package bus

import (
	"bytes"
	"context"
	"errors"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// forWorker returns the task as workers get it: the whole event record, without how the
// policy decided. It does not verify the task: the worker verifies its grant. A record
// that this engine cannot read goes to the worker as it is.
func (c codec) forWorker(ctx context.Context, task *nats.Msg) (message.RawJSON, error) {
	seq := sequenceOfTask(task.Reply)
	if known := c.bases.get(seq); known != nil {
		return strictjson.Marshal(known.Record)
	}
	if s, err := toolcall.DecodeStored(task.Data); err != nil || !s.IsCompact() {
		return withoutExplanation(task.Data), nil //nolint:nilerr // the worker says what is wrong with it
	}
	c.keys = nil
	f, _, err := c.expand(ctx, Entity(EntityIn(task.Subject)), stored{subject: task.Subject, seq: seq, header: task.Header, data: task.Data}, 0)
	if errors.Is(err, errUnreadable) {
		return task.Data, nil
	}
	if err != nil {
		return nil, err
	}
	f.Explanation = nil
	return strictjson.Marshal(f)
}

func withoutExplanation(body []byte) []byte {
	const name = "explanation"
	if !bytes.Contains(body, []byte(`"`+name+`"`)) {
		return body
	}
	members, err := strictjson.Members(body)
	if err != nil {
		return body
	}
	out := []byte("{")
	for _, m := range members {
		if m.Name == name {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, m.Name), ':'), m.Value...)
	}
	return append(out, '}')
}
