package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
)

// settleAnchor makes or brings up the anchor of a journal that is whole.
func (j *Journal) settleAnchor(x *Exam, log *slog.Logger) error {
	j.high.Store(max(x.Known, x.Last))
	if j.anchor == nil || j.inspect {
		return nil
	}
	found := j.anchor.found()
	if found == anchorMade && !x.moved {
		return j.anchor.signed(x.last.checkpoint)
	}
	if x.Last > 0 && log != nil {
		log.Warn("an anchor was made for a journal that has records: a loss before now can only be seen by its checkpoints", "anchor", j.anchor.path, "records", x.Records, "signed", x.Signed)
	}
	return j.anchor.make(x.last.checkpoint, highMark{seq: x.Last, at: time.Now().UnixNano()})
}

// lose ends the journal for good: it takes no writes and is not watched any
// more.
func (j *Journal) lose(err error) { j.finish(err) }

// lost is why the journal ended; nil while it goes on.
func (j *Journal) lost() error {
	if j.ended.Err() == nil {
		return nil
	}
	return context.Cause(j.ended)
}

// implausible ends the journal because of an acknowledgement that a whole
// journal cannot give: before is the highest sequence known as the write began.
func (j *Journal) implausible(seq, before uint64) error {
	err := &message.Error{Code: message.CodeDamaged, Op: "check journal", What: fmt.Sprintf("the journal of the space %s lost records: %d was written last, and the next record became %d", j.space, before, seq),
		Hint: "nothing runs on it: restore a backup of the journal, or look with askance journal check and decide with askance journal accept-loss"}
	j.lose(err)
	return err
}

// keepStored keeps that a record is stored, and refuses a place that is not behind
// all that was known before.
func (j *Journal) keepStored(seq, before uint64, leaf proof.Hash) error {
	if seq <= before {
		return j.implausible(seq, before)
	}
	j.reached(seq, leaf)
	return nil
}

// reached keeps the highest record that is known.
func (j *Journal) reached(seq uint64, leaf proof.Hash) {
	for {
		high := j.high.Load()
		if seq <= high {
			return
		}
		if j.high.CompareAndSwap(high, seq) {
			j.anchor.raise(seq, leaf)
			return
		}
	}
}

// confirm examines the journal of a running engine, and ends it if it is damaged
// and no election explains that.
func (j *Journal) confirm(ctx context.Context) (*Exam, error) {
	if err := j.anchor.failure(); err != nil {
		j.lose(err)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, watchLook) // several requests, to a server that may be busy
	defer cancel()
	x, err := j.examine(ctx)
	if err == nil && !x.OK {
		err = j.excuse(x)
	}
	if err != nil || x.OK || j.inspect {
		return x, err
	}
	if x.patience() == 0 {
		j.lose(x.Error())
	}
	return x, x.Error()
}

// excuse takes out the flaws of streams that the server could not write: it counts
// a record before it writes it. What they lack is known when it has started again.
func (j *Journal) excuse(x *Exam) error {
	h, ok := errors.AsType[*HealthError](j.health())
	if !ok {
		return nil
	}
	if slices.Contains(h.Broken, LedgerName(j.space)) {
		x.Flaws = slices.DeleteFunc(x.Flaws, func(f Flaw) bool { return f.Kind == FlawProof })
		x.OK = len(x.Flaws) == 0
	}
	if !x.OK && slices.Contains(h.Broken, j.stream) {
		return &message.Error{Code: message.CodeUnavailable, Op: "check journal", What: "the server cannot write the journal and cannot tell what it has", Hint: restartHint, Err: h}
	}
	return nil
}

// confirmCount makes sure that the journal still has every record: what is not
// there is believed to be new only then. One request in the usual case.
func (j *Journal) confirmCount(ctx context.Context) error {
	if err := j.lost(); err != nil || j.inspect {
		return err
	}
	high := j.high.Load()
	info, err := j.infoOf(ctx, j.stream)
	if err != nil {
		return err
	}
	if info != nil && info.State.LastSeq >= high && info.State.Msgs+j.missing.Load() == info.State.LastSeq {
		return nil
	}
	_, err = j.confirm(ctx)
	return err
}

// writable refuses to write to a journal that ended or is only looked at.
func (j *Journal) writable() error {
	if j.inspect {
		return &message.Error{Code: message.CodeForbidden, Op: "write to journal", What: "the journal was opened to be inspected", Hint: "start an engine"}
	}
	return j.lost()
}

// AddFlaw adds what was found elsewhere, such as an anchor that cannot be read.
func (x *Exam) AddFlaw(kind FlawKind, what string) {
	x.OK = false
	x.flaw(kind, 0, 0, "%s", what)
}
