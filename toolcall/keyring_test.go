package toolcall_test

import (
	"bytes"
	"crypto/ed25519"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

func seedKey(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

func publicOf(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func idOf(b byte) string { return toolcall.KeyID(publicOf(seedKey(b))) }

// ring returns the keys 1 to n, each introduced by the one before.
func ring(t *testing.T, n byte) toolcall.KeyRing {
	t.Helper()
	var r toolcall.KeyRing
	for b := byte(1); b <= n; b++ {
		k := toolcall.EngineKey{ID: idOf(b), Public: toolcall.FormatPublicKey(publicOf(seedKey(b)))}
		if b > 1 {
			k.Since = time.Date(2026, 1, int(b), 0, 0, 0, 0, time.UTC)
			if err := k.Introduce(seedKey(b - 1)); err != nil {
				t.Fatal(err)
			}
		}
		r = append(r, k)
	}
	return r
}

func retireFirst(t *testing.T, r toolcall.KeyRing, by byte) {
	t.Helper()
	if err := r[0].Retire(time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), seedKey(by)); err != nil {
		t.Fatal(err)
	}
}

func TestKeyRingFollow(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(r toolcall.KeyRing) toolcall.KeyRing
		pinned  byte
		retired []byte // known before
		want    []byte
		gone    []byte
	}{
		{"from the first", nil, 1, nil, []byte{1, 2, 3}, nil},
		{"from the second", nil, 2, nil, []byte{2, 3}, nil},
		{"from a stranger", nil, 9, nil, []byte{9}, nil},
		{"the first is retired", func(r toolcall.KeyRing) toolcall.KeyRing { retireFirst(t, r, 3); return r }, 1, nil, []byte{2, 3}, []byte{1}},
		{"retired by a stranger", func(r toolcall.KeyRing) toolcall.KeyRing { retireFirst(t, r, 9); return r }, 1, nil, []byte{1, 2, 3}, nil},
		{"retired by itself", func(r toolcall.KeyRing) toolcall.KeyRing { retireFirst(t, r, 1); return r }, 1, nil, []byte{1, 2, 3}, nil},
		{"retired at another time", func(r toolcall.KeyRing) toolcall.KeyRing {
			retireFirst(t, r, 3)
			r[0].Retired = r[0].Retired.Add(time.Second)
			return r
		}, 1, nil, []byte{1, 2, 3}, nil},
		{"the retirement of another key", func(r toolcall.KeyRing) toolcall.KeyRing {
			retireFirst(t, r, 3)
			r[1].Retired, r[1].RetiredBy, r[1].RetiredSig = r[0].Retired, r[0].RetiredBy, r[0].RetiredSig
			return r
		}, 1, nil, []byte{2, 3}, []byte{1}},
		{"a retirement is final", nil, 1, []byte{1}, nil, []byte{1}},
		{"a retired key introduces no key", nil, 2, []byte{2}, nil, []byte{2}},
		{"the middle is missing", func(r toolcall.KeyRing) toolcall.KeyRing { return slices.Delete(r, 1, 2) }, 1, nil, []byte{1}, nil},
		{"the wrong order", func(r toolcall.KeyRing) toolcall.KeyRing { r[1], r[2] = r[2], r[1]; return r }, 1, nil, []byte{1, 2}, nil},
		{"another public key", func(r toolcall.KeyRing) toolcall.KeyRing { r[1].Public = r[2].Public; return r }, 1, nil, []byte{1}, nil},
		{"another public key with its id", func(r toolcall.KeyRing) toolcall.KeyRing {
			r[1].Public, r[1].ID = toolcall.FormatPublicKey(publicOf(seedKey(9))), idOf(9)
			return r
		}, 1, nil, []byte{1}, nil},
		{"no signature", func(r toolcall.KeyRing) toolcall.KeyRing { r[1].Sig = ""; return r }, 1, nil, []byte{1}, nil},
		{"no base64", func(r toolcall.KeyRing) toolcall.KeyRing { r[1].Sig = "!"; return r }, 1, nil, []byte{1}, nil},
		{"introduced by itself", func(r toolcall.KeyRing) toolcall.KeyRing {
			k := toolcall.EngineKey{ID: idOf(9), Public: toolcall.FormatPublicKey(publicOf(seedKey(9)))}
			if err := k.Introduce(seedKey(9)); err != nil {
				t.Fatal(err)
			}
			return append(r, k)
		}, 1, nil, []byte{1, 2, 3}, nil},
		{"nothing", func(toolcall.KeyRing) toolcall.KeyRing { return nil }, 1, nil, []byte{1}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := ring(t, 3)
			if tc.change != nil {
				r = tc.change(r)
			}
			retired := map[string]bool{}
			for _, b := range tc.retired {
				retired[idOf(b)] = true
			}
			pinned := toolcall.NewKeySet(publicOf(seedKey(tc.pinned)))
			known, gone := r.Follow(pinned, retired)
			if got, want := slices.Sorted(maps.Keys(known)), ids(tc.want); !slices.Equal(got, want) {
				t.Errorf("the trusted keys are %v, want %v", got, want)
			}
			if got, want := slices.Sorted(maps.Keys(gone)), ids(tc.gone); !slices.Equal(got, want) {
				t.Errorf("the retired keys are %v, want %v", got, want)
			}
			if len(pinned) != 1 {
				t.Error("Follow changed its argument")
			}
		})
	}
}

func ids(bs []byte) []string {
	var out []string
	for _, b := range bs {
		out = append(out, idOf(b))
	}
	slices.Sort(out)
	return out
}

func TestParsePublicKey(t *testing.T) {
	text := toolcall.FormatPublicKey(publicOf(seedKey(1)))
	if key, err := toolcall.ParsePublicKey(text); err != nil || !key.Equal(publicOf(seedKey(1))) {
		t.Errorf("%x, %v", key, err)
	}
	for _, bad := range []string{"", "ed25519:", text[8:], text + "A", text + "=", text[:len(text)-1], "rsa:" + text[8:], text + "\n", " " + text} {
		if key, err := toolcall.ParsePublicKey(bad); err == nil {
			t.Errorf("%q is read as %x", bad, key)
		}
	}
}
