package v1

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// alphabet is the alphabet of shortuuid, which makes the ids of 1.x.
const alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// idLen1 is the length of an id of 1.x.
const idLen1 = 22

// newID returns an id for a dict that has none.
func (c Codec) newID() string {
	if c.NewID != nil {
		return c.NewID()
	}
	id := uuid.New()
	return short(id[:])
}

// short encodes 16 bytes as shortuuid does.
func short(b []byte) string {
	n, base, digit := new(big.Int).SetBytes(b), big.NewInt(int64(len(alphabet))), new(big.Int)
	out := []byte(strings.Repeat(alphabet[:1], idLen1))
	for i := idLen1 - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = alphabet[digit.Int64()]
	}
	return string(out)
}

// hash returns 16 bytes derived from a message's id and the place of something in it,
// so that everyone who converts the same messages gets the same ids.
func hash(what, id string, n int) []byte {
	h := sha256.New()
	for _, s := range []string{"askance-v1-" + what, id, strconv.Itoa(n)} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(s)))
		h.Write(size[:])
		h.Write([]byte(s))
	}
	return h.Sum(nil)[:16]
}

// partID returns the id of the n-th dict of a message; the first dict has the id of the
// message.
func (c Codec) partID(id string, n int) string {
	switch {
	case n == 0:
		return id
	case c.Dialect == V01:
		return hex.EncodeToString(hash("part", id, n))
	default:
		return short(hash("part", id, n))
	}
}

// blockID returns the id of a block, because blocks have no ids in dicts.
func blockID(id string, n int) string { return hex.EncodeToString(hash("block", id, n)) }

// The layouts of times. layoutISO is AgentScope 2.0's; see message.Timestamp.
const (
	layout01  = "2006-01-02 15:04:05"
	layout1   = "2006-01-02 15:04:05.000"
	layoutISO = "2006-01-02T15:04:05"
)

// iso converts a timestamp to AgentScope 2.0's form. Text that is not a timestamp is
// unchanged: times are opaque text on both sides.
func (c Codec) iso(at string) string {
	t, err := time.ParseInLocation(layout01, at, cmp.Or(c.Location, time.UTC)) // also accepts a fraction
	switch {
	case err != nil:
		return at
	case c.Location == nil:
		return strings.Replace(at, " ", "T", 1)
	default:
		return t.Format(time.RFC3339Nano)
	}
}

// timestamp converts a time of either side to the dialect's timestamp.
func (c Codec) timestamp(at string) string {
	for _, layout := range []string{layoutISO, time.RFC3339Nano, layout01} {
		t, err := time.Parse(layout, at)
		if err != nil {
			continue
		}
		if layout == time.RFC3339Nano && c.Location != nil {
			t = t.In(c.Location)
		}
		if c.Dialect == V01 {
			return t.Format(layout01)
		}
		return t.Format(layout1)
	}
	return at
}
