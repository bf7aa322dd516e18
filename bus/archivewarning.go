package bus

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus/internal/archive"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
)

// A warning, in the metadata of the journal's stream, names an archive that is about to be
// announced. Every engine reads it with each examination and for each call that may be new,
// and refuses the ids of the archive from then on.
//
// Invariant: an archive is announced learnTime after its warning, so that no engine begins a
// call of it meanwhile. An engine that did not run for that long looks again before it takes
// its record for stored; see Append.
type warning struct {
	Name  string    `json:"name"`
	Index proof.Sum `json:"index"`
	At    time.Time `json:"at"`
}

const (
	// learnTime is how long after a warning an engine that has not read it may still write.
	learnTime = maxUnlooked + attemptTimeout + 3*time.Second
	// maxWarning is how long a warning counts if its archiver was killed.
	maxWarning = time.Hour
)

// warnEngines warns of an archive and waits until every engine knows. The caller ends the
// warning.
func (l archiver) warnEngines(ctx context.Context, a *proof.Archive) (end func(), err error) {
	none := func() {}
	if l.learnTime == 0 {
		return none, nil
	}
	text, err := strictjson.Marshal(warning{Name: a.Name, Index: a.Index, At: time.Now().UTC().Round(0)})
	if err != nil {
		return none, err
	}
	began := time.Now()
	if err := l.j.setWarning(ctx, "", string(text)); err != nil {
		return none, err
	}
	end = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
		defer cancel()
		_ = l.j.setWarning(ctx, string(text), "") // else it ends after maxWarning
	}
	if err := l.waitForEngines(ctx, l.learnTime); err != nil {
		return end, err
	}
	info, err := l.j.store.leaderInfo(ctx)
	if err == nil && (info.Config.Metadata[metaArchiving] != string(text) || time.Since(began) > maxWarning/2) {
		err = errMoved // another archiver took over, or this one did not run for long
	}
	return end, err
}

// waitForEngines waits until all engines know of a warning, or of an announcement.
func (l archiver) waitForEngines(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	report := l.r.reportOn("wait until all engines know")
	report(0, 1)
	if !sleepFor(ctx, d) {
		return apiError("archive", "wait until all engines know of it", context.Cause(ctx))
	}
	report(1, 1)
	return nil
}

// setWarning replaces the warning. It changes nothing unless the current one is was; "" is any.
func (j *Journal) setWarning(ctx context.Context, was, text string) error {
	info, err := j.store.leaderInfo(ctx)
	if err != nil {
		return err
	}
	config := info.Config
	if was != "" && config.Metadata[metaArchiving] != was {
		return nil
	}
	config.Metadata = maps.Clone(config.Metadata)
	if delete(config.Metadata, metaArchiving); text != "" {
		config.Metadata[metaArchiving] = text
	}
	if _, err := j.store.js.UpdateStream(ctx, config); err != nil {
		return apiError("archive", "stream "+j.store.stream, err)
	}
	return nil
}

// learnWarning notes the archive that the stream's metadata warns of.
func (a *archives) learnWarning(ctx context.Context, info *jetstream.StreamInfo) {
	if info == nil {
		return
	}
	text := info.Config.Metadata[metaArchiving]
	a.mu.RLock()
	known := a.warning == text && !slices.ContainsFunc(a.warned, func(x *archived) bool { return x.index == nil })
	a.mu.RUnlock()
	if known {
		return
	}
	a.loading.Lock()
	defer a.loading.Unlock()
	var w warning
	var x *archived
	if text != "" && strictjson.Unmarshal([]byte(text), &w) == nil && time.Since(w.At) < maxWarning {
		x = &archived{Archive: proof.Archive{Name: w.Name, Index: w.Index, At: w.At}, unread: errNoStore}
		if a.store != nil {
			x.index, x.unread = a.readIndex(ctx, x)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warning = text
	if x != nil {
		a.warned = append(slices.DeleteFunc(slices.Clone(a.warned), func(o *archived) bool { return o.Name == x.Name }), x)
	}
}

// endedWarnings returns the archives of warnings that are over: their archives were announced
// or given up.
func (a *archives) endedWarnings() []*archived {
	a.mu.RLock()
	defer a.mu.RUnlock()
	var now warning
	_ = strictjson.Unmarshal([]byte(a.warning), &now) // "" names none
	return slices.DeleteFunc(slices.Clone(a.warned), func(x *archived) bool { return x.Name == now.Name && time.Since(x.At) < maxWarning })
}

func (a *archives) forgetWarnings(over []*archived) {
	if len(over) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warned = slices.DeleteFunc(slices.Clone(a.warned), func(x *archived) bool { return slices.Contains(over, x) })
}

// beginsAgain reports whether a record without a predecessor is of an archived entity.
func (a *archives) beginsAgain(entity Entity, prev uint64) bool {
	if prev > 0 {
		return false
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.ContainsFunc(a.list, func(x *archived) bool {
		return x.index != nil && x.index.Has(archive.HashOf(string(entity)))
	})
}

var errArchivedMeanwhile = errors.New("the process did not run for a while")

// checkBegun refuses a stored record that began a call or reply if this process did not run
// between its check and the acknowledgement: the ids may have been archived meanwhile. Readers
// then take the record for void.
func (a *appending) checkBegun(ctx context.Context, seq uint64) error {
	if a.prev > 0 || time.Since(a.checked) <= a.j.pauseAfter {
		return nil
	}
	_, err := a.j.guard.check(ctx)
	if err == nil {
		err = a.j.guard.archives.check(a.opName(), a.key)
	}
	if err == nil {
		return nil
	}
	a.j.voids.firm.forgetSeq(seq)
	return a.newError(message.CodeUnknownOutcome, "the event record was stored, but the call may have been archived before", "read the entity's last event record and compare its id", errors.Join(errArchivedMeanwhile, err))
}
