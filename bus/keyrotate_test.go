package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func rotate(k *keyfile.Keys) (*keyfile.Keys, error) { return k.Rotated(bustest.At) }

// keyFileOf has fresh keys, rotated n times.
func keyFileOf(t *testing.T, n int) (path string, k *keyfile.Keys) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "engine.key")
	k, err := keyfile.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		if k, err = keyfile.Change(t.Context(), path, rotate); err != nil {
			t.Fatal(err)
		}
	}
	return path, k
}

func changed(t *testing.T, path string, change func(*keyfile.Keys) (*keyfile.Keys, error)) *keyfile.Keys {
	t.Helper()
	k, err := keyfile.Change(t.Context(), path, change)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A rotation changes the signing key, but neither the id of the space's keys nor the key that
// authenticates event records. A retired key loses its secret.
func TestRotateAndRetire(t *testing.T) {
	path, first := keyFileOf(t, 0)
	b := bustest.New(t)
	b.UseKeys(first)
	bustest.MustAppend(t, b.Journal("test"), bustest.CallRecord(bustest.ID(1), bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	old := first.Signer().Seed()

	second := changed(t, path, rotate)
	if second.ID() != first.ID() || second.SigningID() == first.SigningID() || second.HasRetired(first.SigningID()) || second.HasRetired(second.SigningID()) {
		t.Errorf("after a rotation: %s signs as %s", second.ID(), second.SigningID())
	}
	b.UseKeys(second)
	if r, err := b.Journal("test").Last(t.Context(), bustest.CallKey("c1")); err != nil || r.Invalid != nil {
		t.Errorf("the journal before: %+v, %v", r, err)
	}
	if _, err := second.Retired(second.SigningID(), bustest.At); !errors.Is(err, message.ErrConflict) {
		t.Errorf("retiring the signing key: %v", err)
	}
	if _, err := second.Retired("0000000000000000", bustest.At); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("retiring a stranger: %v", err)
	}
	third := changed(t, path, func(k *keyfile.Keys) (*keyfile.Keys, error) { return k.Retired(first.SigningID(), bustest.At) })
	if !third.HasRetired(first.SigningID()) || third.HasRetired(second.SigningID()) || second.HasRetired("x") {
		t.Error("the retired key is in force")
	}
	if _, err := third.Retired(first.SigningID(), bustest.At); !errors.Is(err, message.ErrConflict) {
		t.Errorf("retiring again: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Keys []struct{ ID, Seed string } `json:"signing_keys"`
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Keys) != 2 || file.Keys[0].Seed != "" || file.Keys[1].Seed == "" {
		t.Errorf("the file keeps %+v, %v (a seed of %d bytes)", file, err, len(old))
	}
	pub := filepath.Join(t.TempDir(), "engine.pub")
	if err := third.WritePublic(pub); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pub, filepath.Dir(pub)} {
		if set, err := keyfile.LoadPublic(path); err != nil || len(set) != 1 || set[second.SigningID()] == nil {
			t.Errorf("workers get %v, %v", set, err)
		}
	}
	if set, retired, err := keyfile.LoadPublicEver(pub); err != nil || len(set) != 2 || len(retired) != 1 {
		t.Errorf("auditors get %v, %v", set, err)
	}
	if _, err := keyfile.LoadPublic(t.TempDir()); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("a folder without keys: %v", err)
	}
}

func TestRotatedFilesRefused(t *testing.T) {
	path, k := keyFileOf(t, 2)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(f map[string]any){
		"another id":            func(f map[string]any) { f["id"] = k.SigningID() },
		"no keys":               func(f map[string]any) { delete(f, "signing_keys") },
		"a key of another id":   func(f map[string]any) { keysIn(f)[1].(map[string]any)["id"] = k.ID() },
		"another's secret":      func(f map[string]any) { keysIn(f)[1].(map[string]any)["seed"] = keysIn(f)[2].(map[string]any)["seed"] },
		"no secret":             func(f map[string]any) { delete(keysIn(f)[1].(map[string]any), "seed") },
		"a retired key signs":   func(f map[string]any) { keysIn(f)[2].(map[string]any)["retired"] = "2026-03-01T12:00:00Z" },
		"a seed of version 1":   func(f map[string]any) { f["signing_seed"] = keysIn(f)[0].(map[string]any)["seed"] },
		"an unknown member":     func(f map[string]any) { f["note"] = "x" },
		"a version to come":     func(f map[string]any) { f["v"] = 3 },
		"version 1 of many":     func(f map[string]any) { f["v"] = 1 },
		"no authentication key": func(f map[string]any) { f["mac_key"] = "" },
	} {
		t.Run(name, func(t *testing.T) {
			var f map[string]any
			if err := json.Unmarshal(good, &f); err != nil {
				t.Fatal(err)
			}
			change(f)
			text, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := keyfile.Load(path); !errors.Is(err, message.ErrInvalid) || leaks(err.Error(), f) {
				t.Errorf("%v, want invalid without a secret", err)
			}
		})
	}
}

func keysIn(f map[string]any) []any { return f["signing_keys"].([]any) }

// leaks reports whether a text has a secret of the file.
func leaks(text string, f map[string]any) bool {
	keys, _ := f["signing_keys"].([]any)
	return slices.ContainsFunc(keys, func(k any) bool {
		seed, _ := k.(map[string]any)["seed"].(string)
		return seed != "" && strings.Contains(text, seed)
	})
}

func TestRotateAtOnce(t *testing.T) {
	path, _ := keyFileOf(t, 0)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := keyfile.Change(t.Context(), path, rotate); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	k, err := keyfile.Load(path)
	if err != nil || len(k.Ring()) != 6 {
		t.Errorf("%d keys, %v; want 6", len(k.Ring()), err)
	}
}

// A key file that did not change is not read again.
func TestLiveKeysOfTheSameFile(t *testing.T) {
	path, k := keyFileOf(t, 0)
	l := keyfile.NewLive(path, k)
	reload := func() error {
		_, err := l.Reload(func(*keyfile.Keys) error { return nil })
		return err
	}
	info, err := os.Stat(path)
	if err = errors.Join(err, reload(), os.WriteFile(path, make([]byte, info.Size()), 0o600), os.Chtimes(path, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
	if err := reload(); err != nil {
		t.Errorf("the same time and size: %v", err)
	}
	if err := os.Chtimes(path, time.Time{}, info.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := reload(); err == nil {
		t.Error("another time: the file is not read")
	}
}

// A running engine adopts a rotation after workers can know of it, but never the keys of another
// space.
func TestLiveKeys(t *testing.T) {
	path, k := keyFileOf(t, 0)
	l := keyfile.NewLive(path, k)
	step := func(what string, before error, wantChange, wantErr bool) {
		t.Helper()
		signs, told := l.Now().SigningID(), 0
		changed, err := l.Reload(func(next *keyfile.Keys) error {
			told++
			if l.Now().SigningID() != signs || next == l.Now() {
				t.Errorf("%s: the new keys sign before they are announced", what)
			}
			return before
		})
		if changed != wantChange || (err != nil) != wantErr || (told > 0) != (wantChange || before != nil) {
			t.Errorf("%s: changed %v, %v, told %d times", what, changed, err, told)
		}
	}
	step("nothing new", nil, false, false)
	next := changed(t, path, rotate)
	step("the announcement fails", errors.New("disk full"), false, true)
	step("a rotation", nil, true, false)
	if string(l.SigningKey()) != string(next.Signer()) || l.HasRetired(k.ID()) || len(l.Ring()) != 2 {
		t.Error("the new key does not sign")
	}
	changed(t, path, func(k *keyfile.Keys) (*keyfile.Keys, error) { return k.Retired(k.ID(), bustest.At) })
	step("a retirement", nil, true, false)
	if !l.HasRetired(k.ID()) {
		t.Error("the retired key is in force")
	}
	other, _ := keyFileOf(t, 0)
	copyFile(t, other, path)
	step("another space's keys", nil, false, true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	step("no file", nil, false, true)
	if l.Now().SigningID() != next.SigningID() {
		t.Error("the keys in force are gone")
	}
}

// A worker that knows one key follows the rotations that engines announce if a key that it trusts
// introduces the new key, and it remembers retired keys.
func TestKeyFollower(t *testing.T) {
	path, first := keyFileOf(t, 0)
	pub := filepath.Join(t.TempDir(), "engine.pub")
	if err := first.WritePublic(pub); err != nil {
		t.Fatal(err)
	}
	live := keyfile.NewLive(path, first)
	w := newWorld(t)
	w.engine(bus.ServiceOptions{Keys: live.Ring})
	wk := w.worker(job, "wk")
	fake := toolcall.KeyRing(nil)
	f := keyfile.NewFollower([]string{pub}, func(ctx context.Context) (toolcall.KeyRing, error) {
		if fake != nil {
			return fake, nil
		}
		return wk.Keys(ctx)
	})
	trusts := func(what string, want ...string) {
		t.Helper()
		keys, err := f.Keys(t.Context())
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(keys)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: trusts %v, %v; want %v", what, got, err, want)
		}
	}
	reload := func(k *keyfile.Keys) *keyfile.Keys {
		t.Helper()
		if _, err := live.Reload(func(*keyfile.Keys) error { return nil }); err != nil {
			t.Fatal(err)
		}
		return k
	}
	trusts("at the start", first.ID())
	second := reload(changed(t, path, rotate))
	trusts("after a rotation", first.ID(), second.SigningID())
	_, stranger := keyFileOf(t, 1)
	fake = stranger.Ring()
	trusts("what a stranger says", first.ID(), second.SigningID())
	fake = toolcall.KeyRing{}
	trusts("no answer", first.ID(), second.SigningID())
	fake = nil
	reload(changed(t, path, func(k *keyfile.Keys) (*keyfile.Keys, error) { return k.Retired(first.ID(), bustest.At) }))
	trusts("the first is retired", second.SigningID())
	// A thief of the first key can restore neither it nor a successor.
	ring := first.Ring()
	theirs, err := first.Rotated(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	fake = append(ring, theirs.Ring()...)
	trusts("a thief with the retired key", second.SigningID())
	fake = nil
	third := reload(changed(t, path, rotate))
	trusts("after another rotation", second.SigningID(), third.SigningID())
	// Files are trusted without a signature.
	if err := third.WritePublic(pub); err != nil {
		t.Fatal(err)
	}
	fake = toolcall.KeyRing{}
	trusts("the file of now", second.SigningID(), third.SigningID())
	// The file's statement that a key is retired counts as much as an engine's.
	last := changed(t, path, func(k *keyfile.Keys) (*keyfile.Keys, error) { return k.Retired(second.SigningID(), bustest.At) })
	old := filepath.Join(filepath.Dir(pub), "old.pub")
	for path, k := range map[string]*keyfile.Keys{pub: last, old: third} {
		if err := k.WritePublic(path); err != nil {
			t.Fatal(err)
		}
	}
	if keys, err := keyfile.LoadPublic(filepath.Dir(pub)); err != nil || len(keys) != 1 || keys[third.SigningID()] == nil {
		t.Errorf("a file with a retired key beside an older file: %v, %v", keys, err)
	}
	again := toolcall.EngineKey{ID: second.SigningID(), Public: toolcall.FormatPublicKey(second.Public())}
	if err := again.Introduce(third.Signer()); err != nil {
		t.Fatal(err)
	}
	fake = toolcall.KeyRing{again}
	trusts("a retired key is introduced again", third.SigningID())
	f = keyfile.NewFollower([]string{pub}, func(context.Context) (toolcall.KeyRing, error) { return fake, nil })
	trusts("a new worker", third.SigningID())
	if err := os.Remove(pub); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Keys(t.Context()); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("no file: %v", err)
	}
}
