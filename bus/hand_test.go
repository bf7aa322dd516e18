package bus_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/nats-io/nats.go"
)

// What PROTOCOL.md says, done by hand: with nothing of ours but the files and
// the subjects.

// handKeys makes a key file, lets b use it and gives its secret and public key.
func handKeys(t *testing.T, b *bustest.Bus) (mac []byte, id string, public ed25519.PublicKey) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine.key")
	keys, err := bus.LoadOrCreateKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	b.UseKeys(keys)
	var f struct {
		ID   string `json:"id"`
		MAC  string `json:"mac_key"`
		Seed string `json:"signing_seed"`
	}
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err == nil {
		mac, err = base64.RawURLEncoding.DecodeString(f.MAC)
	}
	if err != nil {
		t.Fatal(err)
	}
	seed, err := base64.RawURLEncoding.DecodeString(f.Seed)
	if err != nil {
		t.Fatal(err)
	}
	return mac, f.ID, ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
}

func lengthFirst(text string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(len(text))), text...)
}

// handMAC is the MAC of a fact.
func handMAC(key []byte, subject string, prev uint64, body []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("askance-fact-v1\x00"))
	h.Write(lengthFirst(subject))
	h.Write(binary.BigEndian.AppendUint64(nil, prev))
	h.Write(body)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// handToken encodes a name.
func handToken(name string) string {
	switch {
	case len(name) <= 64 && name[0] != '-' && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == "":
		return name
	case len(name) <= 180:
		return "~" + base64.RawURLEncoding.EncodeToString([]byte(name))
	}
	return "~~" + handSHA256([]byte(name))
}

func handSHA256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// canonical is RFC 8785 for values that have only text, whole numbers, lists
// and objects with ASCII names: encoding/json sorts those the same way.
func canonical(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// handFact is the message that stores a fact of the call c1 of s1 and r1.
func handFact(key []byte, keyID, space, id, kind, body string, prev uint64) *nats.Msg {
	tree := "askance.v1." + space + ".fact.s1.r1.c1."
	m := nats.NewMsg(tree + "f")
	m.Data = []byte(body)
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(prev, 10))
	m.Header.Set("Nats-Expected-Last-Subject-Sequence-Subject", tree+">")
	m.Header.Set("Nats-Msg-Id", id)
	m.Header.Set("Askance-Kind", kind)
	m.Header.Set("Askance-MAC", keyID+" "+handMAC(key, m.Subject, prev, m.Data))
	return m
}

// handRequest sends a request and gives the reply's body.
func handRequest(t *testing.T, nc *nats.Conn, subject, request string) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, subject, []byte(request))
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	var reply map[string]any
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		t.Fatal(err)
	}
	if reply["v"] != float64(1) || reply["error"] != nil {
		t.Fatalf("%s %s: %s", subject, request, m.Data)
	}
	body, _ := reply["body"].(map[string]any)
	return body
}
