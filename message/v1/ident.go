package v1

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// alphabet is that of shortuuid, in which 1.x writes its ids.
const alphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// idLen1 is the length of an id of 1.x.
const idLen1 = 22

// newID makes an id that a dict left out.
func (c Codec) newID() string {
	if c.NewID != nil {
		return c.NewID()
	}
	id := uuid.New()
	return short(id[:])
}

// short writes 16 bytes as shortuuid does.
func short(b []byte) string {
	n, base, digit := new(big.Int).SetBytes(b), big.NewInt(int64(len(alphabet))), new(big.Int)
	out := []byte(strings.Repeat(alphabet[:1], idLen1))
	for i := idLen1 - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = alphabet[digit.Int64()]
	}
	return string(out)
}

// hash makes 16 bytes of a message's id and the place of something in it, so
// that everyone who converts the same messages gets the same ids.
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

// partID is the id of the n-th dict that a message becomes; the first keeps
// the message's.
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

// blockID is the id of a block, which dicts have none for.
func blockID(id string, n int) string { return hex.EncodeToString(hash("block", id, n)) }

// The forms of times. iso is AgentScope 2.0's; see message.Timestamp.
const (
	layout01  = "2006-01-02 15:04:05"
	layout1   = "2006-01-02 15:04:05.000"
	layoutISO = "2006-01-02T15:04:05"
)

// iso makes AgentScope 2.0's time of a timestamp. What is no timestamp stays as
// it is: times are opaque text on both sides.
func (c Codec) iso(at string) string {
	zone := c.Location
	if zone == nil {
		zone = time.UTC
	}
	t, err := time.ParseInLocation(layout01, at, zone) // takes a fraction, too
	switch {
	case err != nil:
		return at
	case c.Location == nil:
		return strings.Replace(at, " ", "T", 1)
	default:
		return t.Format(time.RFC3339Nano)
	}
}

// timestamp makes the dialect's timestamp of a time of either side.
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
