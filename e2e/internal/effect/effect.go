// Package effect is the tool that the workers and engines of the crash tests run. Its only
// effect is a line in a file, which shows afterwards what ran and with which input:
//
//	tool DIR idempotent|once  <input
//
// It appends a line to DIR/runs.log when it begins and one to DIR/effects.log
// as its effect. An idempotent tool looks for its key first, under a lock. Both
// wait before and after the effect as long as the input says, so that kills hit every
// stage. While it runs it holds a shared lock, so that another process can wait
// until all tools have ended: see [Idle].
//
// It also records an input that is empty, cut off or not JSON, and then still has its
// effect, as a careless tool would: [Mark.Received] finds such lines.
//
// A line is written with a single write, so a kill cannot split it, and is synced. Effects
// are written under a lock, because a reader could see half of a line that crosses a page. A
// tool that is not idempotent can have its effect twice, which is what it demonstrates.
package effect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/askance-dev/askance/internal/strictjson"
)

// Files that the tool writes.
const (
	RunsFile    = "runs.log"
	EffectsFile = "effects.log"
	runningLock = "running.lock"
)

// Kinds of tool.
const (
	Idempotent = "idempotent"
	Once       = "once"
)

// Input is the input of every call. N makes inputs differ, Ask and Forbid are only for the
// policy, and Pad makes inputs large.
type Input struct {
	N      int    `json:"n"`
	Ask    bool   `json:"ask"`
	Forbid bool   `json:"forbid"`
	Before int64  `json:"before_ms"`
	After  int64  `json:"after_ms"`
	Pad    string `json:"pad,omitzero"`
}

// Mark is one line of the tool's files: the call, its attempt, the time and the input.
type Mark struct {
	Key     string // the idempotency key
	Attempt int    // 0: unknown to the tool
	At      time.Time
	Input   string // the [Digest] of exactly the bytes that were read
	Bytes   int    // how many bytes were read
	Told    int    // how many bytes the tool was told to expect; -1 if it was not told
}

// Received returns an error unless the tool read exactly input.
func (m Mark) Received(input string) error {
	switch {
	case m.Bytes != len(input):
		return fmt.Errorf("it read %d of %d bytes", m.Bytes, len(input))
	case m.Input != Digest([]byte(input)):
		return fmt.Errorf("it read other bytes: digest %s, want %s", m.Input, Digest([]byte(input)))
	case m.Told != len(input):
		return fmt.Errorf("it was told to expect %d bytes, want %d", m.Told, len(input))
	}
	return nil
}

// Main is the program; args are its arguments without the name. It returns the exit code.
func Main(args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) != 2 || args[1] != Idempotent && args[1] != Once {
		_, _ = fmt.Fprintln(errs, "usage: tool DIR idempotent|once")
		return 2
	}
	if err := run(args[0], args[1] == Idempotent, in); err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return 1
	}
	_, _ = fmt.Fprint(out, "done")
	return 0
}

func run(dir string, idempotent bool, in io.Reader) error {
	running := flock.New(filepath.Join(dir, runningLock))
	if err := running.RLock(); err != nil {
		return err
	}
	defer func() { _ = running.Unlock() }() // the process ends anyway
	m, input, fault := read(in)
	if err := m.append(filepath.Join(dir, RunsFile)); err != nil {
		return err
	}
	<-time.After(time.Duration(input.Before) * time.Millisecond)
	if err := m.effect(dir, idempotent); err != nil {
		return err
	}
	<-time.After(time.Duration(input.After) * time.Millisecond)
	return fault
}

// read reads the whole input. Even after a fault, the mark says what was read.
func read(in io.Reader) (m Mark, input Input, fault error) {
	raw, unread := io.ReadAll(in)
	m = Mark{Key: os.Getenv("ASKANCE_IDEMPOTENCY_KEY"), Input: Digest(raw), Bytes: len(raw), Told: -1}
	var unnumbered error
	if m.Attempt, unnumbered = strconv.Atoi(os.Getenv("ASKANCE_ATTEMPT")); unnumbered != nil {
		m.Attempt = 0
	}
	if n, err := strconv.Atoi(os.Getenv("ASKANCE_INPUT_BYTES")); err == nil {
		m.Told = n
	}
	undecoded := strictjson.Unmarshal(raw, &input)
	if undecoded != nil {
		input = Input{}
	}
	return m, input, errors.Join(unread, unnumbered, undecoded, m.Received(string(raw)))
}

// effect writes the effect, one line. An idempotent tool writes it only if its key has none yet.
func (m Mark) effect(dir string, idempotent bool) error {
	path := filepath.Join(dir, EffectsFile)
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // the process ends anyway
	if !idempotent {
		return m.append(path)
	}
	marks, err := Read(path)
	if err != nil {
		return err
	}
	for _, old := range marks {
		if old.Key == m.Key {
			return nil
		}
	}
	return m.append(path)
}

// append writes the line in a single write, so that a kill cannot split it, and syncs it.
func (m Mark) append(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %d %d %s %d %d\n", m.Key, m.Attempt, time.Now().UnixNano(), m.Input, m.Bytes, m.Told)
	return errors.Join(err, f.Sync(), f.Close())
}

// Read returns the lines of one of the files in the order in which they were
// written, or none if the file does not exist.
func Read(path string) ([]Mark, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Mark
	for line := range bytes.Lines(data) {
		m, err := parse(strings.Fields(string(line)))
		if err != nil {
			return nil, fmt.Errorf("%s: broken line %q: %w", path, line, err)
		}
		out = append(out, m)
	}
	return out, nil
}

func parse(f []string) (Mark, error) {
	if len(f) != 6 {
		return Mark{}, fmt.Errorf("%d fields, want 6", len(f))
	}
	attempt, err1 := strconv.Atoi(f[1])
	nanos, err2 := strconv.ParseInt(f[2], 10, 64)
	size, err3 := strconv.Atoi(f[4])
	told, err4 := strconv.Atoi(f[5])
	return Mark{f[0], attempt, time.Unix(0, nanos), f[3], size, told}, errors.Join(err1, err2, err3, err4)
}

// Digest returns a short hash of the bytes with which a tool was run.
func Digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// Idle waits until no tool runs in dir, and prevents new ones from running until release
// is called.
func Idle(ctx context.Context, dir string) (release func() error, err error) {
	lock := flock.New(filepath.Join(dir, runningLock))
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return nil, fmt.Errorf("tools are still running in %s: %w", dir, err)
	}
	return lock.Unlock, nil
}
