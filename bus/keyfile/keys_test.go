package keyfile_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestLoadOrCreateKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "engine.key")
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids { // several engines start at once
		wg.Go(func() {
			k, err := keyfile.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = k.ID()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || len(id) != 16 {
			t.Fatalf("the engines have different keys: %v", ids)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestLoadKeysRefuses(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if _, err := keyfile.LoadOrCreate(good); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	var f map[string]any
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	secret := f["mac_key"].(string)
	for _, tc := range []struct {
		name, text string
		mode       os.FileMode
		want       error
	}{
		{"empty", "", 0o600, message.ErrInvalid},
		{"no JSON", "{", 0o600, message.ErrInvalid},
		{"another version", strings.Replace(string(text), `"v":1`, `"v":2`, 1), 0o600, message.ErrInvalid},
		{"another id", strings.Replace(string(text), f["id"].(string), "0000000000000000", 1), 0o600, message.ErrInvalid},
		{"a short key", strings.Replace(string(text), secret, secret[:40], 1), 0o600, message.ErrInvalid},
		{"twice the same member", strings.Replace(string(text), `{`, `{"v":1,`, 1), 0o600, message.ErrInvalid},
		{"an unknown member", strings.Replace(string(text), `{`, `{"mac":"`+secret+`",`, 1), 0o600, message.ErrInvalid},
		{"readable by others", string(text), 0o644, message.ErrForbidden},
		{"readable by the group", string(text), 0o640, message.ErrForbidden},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(dir, "bad")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tc.mode); err != nil {
				t.Fatal(err)
			}
			for _, load := range []func(string) (*keyfile.Keys, error){keyfile.Load, keyfile.LoadOrCreate} {
				_, err := load(path)
				if !errors.Is(err, tc.want) {
					t.Errorf("%v, want %v", err, tc.want)
				}
				if err != nil && strings.Contains(err.Error(), secret[:20]) {
					t.Errorf("the error has the secret: %v", err)
				}
			}
			if now, _ := os.ReadFile(path); string(now) != tc.text {
				t.Error("a bad key file was replaced")
			}
		})
	}
	if _, err := keyfile.Load(filepath.Join(dir, "none")); !errors.Is(err, message.ErrNotFound) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := keyfile.LoadOrCreate(filepath.Join(good, "x")); err == nil {
		t.Error("a folder that is a file")
	}
}

// However keys are printed, logged or encoded, no part of a secret is visible.
func TestKeysDoNotShow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	k, err := keyfile.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		MAC  string `json:"mac_key"`
		Seed string `json:"signing_seed"`
	}
	text, _ := os.ReadFile(path)
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "keys", k, "in", struct{ K *keyfile.Keys }{k})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "keys", k, "in", map[string]any{"k": k})
	asJSON, err := json.Marshal(map[string]any{"k": k})
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{log.String(), string(asJSON), k.String(), k.GoString()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown = append(shown, fmt.Sprintf(verb, k), fmt.Sprintf(verb, []any{k}))
	}
	seed := k.Signer().Seed()
	secrets := []string{f.MAC[:12], f.Seed[:12], hex.EncodeToString(seed)[:12], fmt.Sprint(seed)[1:20]}
	for _, s := range shown {
		for _, secret := range secrets {
			if strings.Contains(s, secret) {
				t.Errorf("%q has a secret", s)
			}
		}
		if !strings.Contains(s, k.ID()) && !strings.Contains(s, "0x") {
			t.Errorf("%q does not have the id", s)
		}
	}
}

func TestPublicKeys(t *testing.T) {
	dir := t.TempDir()
	k1, _ := keyfile.New()
	k2, _ := keyfile.New()
	p1, p2 := filepath.Join(dir, "a.pub"), filepath.Join(dir, "b.pub")
	for path, k := range map[string]*keyfile.Keys{p1: k1, p2: k2} {
		if err := k.WritePublic(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := k1.WritePublic(p1); err != nil {
		t.Errorf("written again: %v", err)
	}
	set, err := keyfile.LoadPublic(p1, p2)
	if err != nil || len(set) != 2 {
		t.Fatalf("LoadPublic = %v, %v", set, err)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	req := toolcall.ApprovalRequest{V: 1, Key: toolcall.Key{Space: "test", Session: "s1", Reply: "r1", Call: "c"}, Tool: "echo", Input: "{}"}
	digest, err := req.Digest()
	if err != nil {
		t.Fatal(err)
	}
	g := toolcall.Grant{V: 1, Key: req.Key, Tool: "echo", Digest: digest, Attempt: 1, Expires: now.Add(time.Minute)}
	if err := g.Sign(k2.Signer()); err != nil {
		t.Fatal(err)
	}
	if err := g.VerifyQueue(set, req, toolcall.Queue{Tool: "echo"}, 1, now); err != nil {
		t.Errorf("a grant signed by the engine is refused: %v", err)
	}
	for name, text := range map[string]string{
		"no key":     `{"v":1,"keys":[]}`,
		"wrong id":   `{"v":1,"keys":[{"id":"0000000000000000","public_key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}`,
		"bad base64": `{"v":1,"keys":[{"id":"0000000000000000","public_key":"A"}]}`,
		"no JSON":    `x`,
	} {
		bad := filepath.Join(dir, "bad.pub")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := keyfile.LoadPublic(p1, bad); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
}

// What is published are the keys of the file, not older ones that this process has read, or writes
// while the file changes.
func TestPublishTheCurrentKeys(t *testing.T) {
	dir := t.TempDir()
	path, public := filepath.Join(dir, "engine.key"), filepath.Join(dir, "engine.pub")
	k, err := keyfile.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	live := keyfile.NewLive(path, k)
	rotate := func() string {
		t.Helper()
		k, err := keyfile.Change(t.Context(), path, func(k *keyfile.Keys) (*keyfile.Keys, error) { return k.Rotated(time.Now()) })
		if err == nil {
			err = k.WritePublic(public) // the engine that signs with it
		}
		if err != nil {
			t.Fatal(err)
		}
		return k.SigningID()
	}
	for range 2 {
		next := rotate()
		if err := live.Publish(public); err != nil {
			t.Fatal(err)
		}
		if known, err := keyfile.LoadPublic(public); err != nil || known[next] == nil {
			t.Errorf("workers know %v, %v, not the key %s", known, err, next)
		}
		if got := live.Now().SigningID(); got != next {
			t.Errorf("the engine signs with %s, want %s", got, next)
		}
	}
}
