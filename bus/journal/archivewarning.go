package journal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
)

// A warning, in the metadata of the journal's stream, names an archive that is about to be
// announced. Every engine reads it with each examination, and refuses the ids of the archive
// from then on.
//
// Invariant: unless no engine runs, an archive is announced learnTime after its warning, and
// its records are deleted learnTime after that. So no engine begins a call of it meanwhile,
// and every engine reads the archive when the records are gone. An engine that did not run
// for that long looks again before it takes its record for stored; see checkBegun. A reader of
// a record that begins a call first makes sure that the last look is not too old; see
// learnArchivesFor.
type warning struct {
	Name  string    `json:"name"`
	Index proof.Sum `json:"index"`
}

const (
	// learnTime is how long an engine may still write that has not read a warning or an
	// announcement.
	learnTime = maxUnlooked + jsapi.AttemptTimeout + 3*time.Second
	// maxWarning is how long after reading it an engine heeds a warning. The archiver announces
	// within half of it, or not at all.
	maxWarning = time.Hour
)

// elapsedSince is the longer of the times by the monotonic clock, which stops while the machine
// is suspended, and by the wall clock, which can be set.
func elapsedSince(t time.Time) time.Duration {
	return max(time.Since(t), time.Now().Round(0).Sub(t.Round(0)))
}

// warned is a warning that an archiver gave.
type warned struct {
	l     archiver
	text  string // "": no engine runs
	began time.Time
}

// warnEngines warns of an archive and waits until every engine knows. The caller ends the
// warning.
func (l archiver) warnEngines(ctx context.Context, a *proof.Archive) (w warned, err error) {
	w = warned{l: l, began: time.Now()}
	if l.learnTime == 0 {
		return w, nil
	}
	text, err := strictjson.Marshal(warning{Name: a.Name, Index: a.Index})
	if err == nil {
		err = l.awaitArchivers(ctx)
	}
	if err == nil {
		w.text, w.began = string(text), time.Now()
		err = l.j.setMetadata(ctx, metaArchiving, "", w.text)
	}
	if err == nil {
		err = l.waitForEngines(ctx)
	}
	return w, err
}

// check fails if another archiver has replaced the warning, or this one did not run for long.
func (w warned) check(ctx context.Context) error {
	if w.text == "" {
		return nil
	}
	info, err := w.l.j.store.leaderInfo(ctx)
	if err == nil && (info.Config.Metadata[metaArchiving] != w.text || elapsedSince(w.began) > maxWarning/2) {
		err = errMoved
	}
	return err
}

func (w warned) endWarning(ctx context.Context) {
	if w.text == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jsapi.AttemptTimeout)
	defer cancel()
	_ = w.l.j.setMetadata(ctx, metaArchiving, w.text, "") // else it ends after maxWarning
}

// awaitArchivers waits until no other archiver warns, and ends the warning of one that was
// killed, whose files may be removed.
func (l archiver) awaitArchivers(ctx context.Context) error {
	seen := ""
	for since := time.Now(); ; {
		info, err := l.j.store.leaderInfo(ctx)
		if err != nil {
			return err
		}
		switch text := info.Config.Metadata[metaArchiving]; {
		case text == "":
			return nil
		case text != seen:
			seen, since = text, time.Now()
		case time.Since(since) > 2*l.learnTime:
			if _, err := l.Checkpoint(ctx); err != nil { // an announcement that is still on its way then fails
				return err
			}
			return l.j.setMetadata(ctx, metaArchiving, text, "")
		}
		if sleep.For(ctx, min(l.learnTime, time.Second)) != nil {
			return jsapi.Error("archive", "wait for another archiver", context.Cause(ctx))
		}
	}
}

// waitForEngines waits until all engines know of a warning, or of an announcement.
func (l archiver) waitForEngines(ctx context.Context) error {
	if l.learnTime == 0 {
		return nil
	}
	report := l.r.reportOn("wait until all engines know")
	report(0, 1)
	if sleep.For(ctx, l.learnTime) != nil {
		return jsapi.Error("archive", "wait until all engines know of it", context.Cause(ctx))
	}
	report(1, 1)
	return nil
}

// unmoved are replies without a record up to a sequence.
type unmoved struct {
	after  uint64
	chosen map[[2]bus.Token]bool
}

// lookTime is how long the last look at the journal may take; see announceTime.
const lookTime, maxLooks = 250 * time.Millisecond, 100

// checkUnmoved fails if something was recorded of the replies since the last check. It looks
// until a look is short, because others wait for the announcement only for announceTime.
func (l archiver) checkUnmoved(ctx context.Context, u *unmoved) error {
	for range maxLooks {
		began := time.Now()
		if err := l.lookUnmoved(ctx, u); err != nil {
			return err
		}
		if elapsedSince(began) <= lookTime {
			return nil
		}
	}
	return errMoved
}

func (l archiver) lookUnmoved(ctx context.Context, u *unmoved) error {
	state, err := l.j.streamState(ctx)
	if err != nil {
		return err
	}
	err = l.j.store.visitRecords(ctx, "archive", u.after, state.LastSeq, func(m stored) error {
		if _, reply, ok := replyIn(m.subject); ok && u.chosen[reply] {
			return errMoved
		}
		return nil
	})
	u.after = state.LastSeq
	return err
}

// learnWarning notes the archive that the stream's metadata warns of. exam is false for a
// look that may be older than an examination: it ends no warning and reads no index again.
func (a *archives) learnWarning(ctx context.Context, info *jetstream.StreamInfo, exam bool) {
	if info == nil {
		return
	}
	text := info.Config.Metadata[metaArchiving]
	if a.knowsWarning(text, exam) {
		return
	}
	a.loading.Lock()
	defer a.loading.Unlock()
	if a.knowsWarning(text, exam) { // another goroutine was first
		return
	}
	var x *archived
	if text != "" {
		w, err := readWarning(text)
		x = &archived{Archive: proof.Archive{Name: w.Name, Index: w.Index}, unread: cmp.Or(err, errNoStore), look: a.looks.Load()}
		if err == nil && a.store != nil {
			x.index, x.unread = a.readIndex(ctx, x)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.warning != text {
		a.warning, a.warnedAt = text, time.Now()
	}
	if x != nil {
		x.At = a.warnedAt
		a.warned = append(slices.DeleteFunc(slices.Clone(a.warned), func(o *archived) bool { return o.Name == x.Name }), x)
	}
}

func readWarning(text string) (w warning, err error) {
	err = strictjson.UnmarshalOpen([]byte(text), &w)
	return w, err
}

// knowsWarning reports whether there is nothing to read for a warning.
func (a *archives) knowsWarning(text string, exam bool) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.warning != text {
		return text == "" && !exam
	}
	return !exam || time.Since(a.warnedAt) > maxWarning || !slices.ContainsFunc(a.warned, func(x *archived) bool { return x.index == nil })
}

// endedWarnings returns the archives of warnings that an examination finds to be over: their
// archives were announced or abandoned. Others may have learned of later ones meanwhile.
func (a *archives) endedWarnings(info *jetstream.StreamInfo, look uint64) []*archived {
	text := ""
	if info != nil {
		text = info.Config.Metadata[metaArchiving]
	}
	now, _ := readWarning(text) // "" names none
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(a.warned), func(x *archived) bool {
		return x.look >= look || text != "" && x.Name == now.Name && time.Since(x.At) < maxWarning
	})
}

func (a *archives) forgetWarnings(over []*archived) {
	if len(over) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warned = slices.DeleteFunc(slices.Clone(a.warned), func(x *archived) bool {
		return slices.ContainsFunc(over, func(o *archived) bool { return o.Name == x.Name })
	})
}

// beginsAgain reports whether a record begins a call in an archived reply and is not in an
// archive. Only an engine that did not run for a while can have written it.
func (a *archives) beginsAgain(m stored) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.list) == 0 {
		return false
	}
	if _, prev, ok := basisOf(m); !ok || prev > 0 {
		return false
	}
	hashes := hashesOf(a.space, m.subject)
	return slices.ContainsFunc(a.list, func(x *archived) bool { return x.hasAny(hashes) }) &&
		!slices.ContainsFunc(a.list, func(x *archived) bool { return ranges(x.Gone).has(m.seq, m.seq) })
}

// isWarnedOf reports whether a record begins a call in a reply of a warning, and came after
// the records of that archive.
func (a *archives) isWarnedOf(m stored) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if len(a.warned) == 0 {
		return false
	}
	hashes := hashesOf(a.space, m.subject)
	return slices.ContainsFunc(a.warned, func(x *archived) bool { return x.hasAny(hashes) && m.seq > x.index.LastSequence() })
}

// hasAny reports whether the index is readable and has one of these entities.
func (a *archived) hasAny(hashes []uint64) bool {
	return a.index != nil && slices.ContainsFunc(hashes, a.index.Has)
}

// announceTime is the time from the last look of an archiver at the journal until others can
// read its announcement.
const announceTime = lookTime + jsapi.AttemptTimeout + 250*time.Millisecond

// learnArchivesFor is learnArchives before it is decided whether a record begins a call again.
// If an archive of its reply is being made, its archiver can have looked before the record was
// stored: it waits until the announcement would be there.
func (g *guard) learnArchivesFor(ctx context.Context, m stored) error {
	if err := g.learnArchives(ctx); err != nil || !g.archives.isWarnedOf(m) || !g.codec.isGenuine(m) {
		return err
	}
	if sleep.For(ctx, announceTime) != nil {
		return context.Cause(ctx)
	}
	_, err := g.check(ctx)
	return err
}

var errArchivedMeanwhile = errors.New("the process did not run for a while")

// checkBegun refuses a stored record that began a call or reply if this process did not run
// between its check and the acknowledgement: the ids may have been archived meanwhile. The
// record is then void. A record whose acknowledgement was lost is read, with the same check.
func (a *appending) checkBegun(ctx context.Context) error {
	if a.prev > 0 || a.checked.IsZero() || elapsedSince(a.checked) <= cmp.Or(a.j.pauseAfter, jsapi.AttemptTimeout) {
		return nil
	}
	_, err := a.j.guard.check(ctx)
	if err == nil {
		err = a.j.guard.archives.check(a.opName, a.key)
	}
	if err == nil {
		return nil
	}
	return a.newError(message.CodeUnknownOutcome, "the event record was stored, but the call may have been archived before", "read the entity's last event record and compare its id", errors.Join(errArchivedMeanwhile, err))
}
