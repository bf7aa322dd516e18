package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// effectTool as first argument turns the test binary into the tool that
// workers and engines run:
//
//	e2e.test effect-tool DIR idempotent|once  <input
//
// It appends a line to DIR/runs.log when it begins and one to DIR/effects.log
// as its effect. An idempotent one looks for its key first, under a lock. Both
// take as long before and after the effect as the input says, so that kills
// hit all of it. As long as it runs it shares a lock, so that whoever wants to
// know what it has done can wait until it does nothing any more.
const effectTool = "effect-tool"

// Files that the tool writes.
const (
	runsFile    = "runs.log"
	effectsFile = "effects.log"
	runningLock = "running.lock"
)

// toolInput is what calls of all tools of these tests carry. N makes inputs
// differ; Ask and Forbid are for the policy alone.
type toolInput struct {
	N      int    `json:"n"`
	Ask    bool   `json:"ask"`
	Forbid bool   `json:"forbid"`
	Before int64  `json:"before_ms"`
	After  int64  `json:"after_ms"`
	Pad    string `json:"pad,omitzero"`
}

// mark is one line of the tool's files: which attempt of which call, when, and
// the digest of the very bytes that it was run with.
type mark struct {
	key     string
	attempt int
	at      time.Time
	input   string
}

func effectMain(args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) != 2 || args[1] != "idempotent" && args[1] != "once" {
		_, _ = fmt.Fprintln(errs, "usage: effect-tool DIR idempotent|once")
		return 2
	}
	if err := effect(args[0], args[1] == "idempotent", in); err != nil {
		_, _ = fmt.Fprintln(errs, err)
		return 1
	}
	_, _ = fmt.Fprint(out, "done")
	return 0
}

func effect(dir string, idempotent bool, in io.Reader) error {
	raw, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	var input toolInput
	if err := strictjson.Unmarshal(raw, &input); err != nil {
		return err
	}
	m := mark{key: os.Getenv("ASKANCE_IDEMPOTENCY_KEY"), input: inputDigest(raw)}
	if m.attempt, err = strconv.Atoi(os.Getenv("ASKANCE_ATTEMPT")); err != nil {
		return err
	}
	running := flock.New(filepath.Join(dir, runningLock))
	if err := running.RLock(); err != nil {
		return err
	}
	defer func() { _ = running.Unlock() }() // the process ends anyway
	if err := m.append(filepath.Join(dir, runsFile)); err != nil {
		return err
	}
	<-time.After(time.Duration(input.Before) * time.Millisecond)
	if err := m.effect(dir, idempotent); err != nil {
		return err
	}
	<-time.After(time.Duration(input.After) * time.Millisecond)
	return nil
}

// effect is the effect: one line, unless the key has one already.
func (m mark) effect(dir string, idempotent bool) error {
	path := filepath.Join(dir, effectsFile)
	if !idempotent {
		return m.append(path)
	}
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }() // the process ends anyway
	marks, err := readMarks(path)
	if err != nil {
		return err
	}
	for _, old := range marks {
		if old.key == m.key {
			return nil
		}
	}
	return m.append(path)
}

// append writes the line in one write, so that a kill cannot halve it, and
// sees it to the disk.
func (m mark) append(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %d %d %s\n", m.key, m.attempt, time.Now().UnixNano(), m.input); err != nil {
		return err
	}
	return f.Sync()
}

func readMarks(path string) ([]mark, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []mark
	for line := range bytes.Lines(data) {
		f := strings.Fields(string(line))
		if len(f) != 4 {
			return nil, fmt.Errorf("%s: broken line %q", path, line)
		}
		attempt, err1 := strconv.Atoi(f[1])
		nanos, err2 := strconv.ParseInt(f[2], 10, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("%s: broken line %q", path, line)
		}
		out = append(out, mark{key: f[0], attempt: attempt, at: time.Unix(0, nanos), input: f[3]})
	}
	return out, nil
}

func inputDigest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}
