package blocks_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/toolcall"
)

// brief is ann, until revoked is closed.
type brief struct{ revoked chan struct{} }

func (b *brief) Authenticate(r *http.Request) (*gateway.Identity, error) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return b.Token(r, token)
}

func (b *brief) Token(*http.Request, string) (*gateway.Identity, error) {
	return &gateway.Identity{Name: gatewaytest.Ann, Space: "alpha", Roles: []toolcall.Role{toolcall.RoleApprover}, Auth: "test", Revoked: b.revoked}, nil
}

// A client that reads slowly does not get the frames that wait for it when its credentials end.
func TestNoFramesAfterTheCredentials(t *testing.T) {
	t.Parallel()
	b := &brief{}
	inBubble(t, blocks.Config{}, func(t *testing.T, s *stage) {
		b.revoked = make(chan struct{}) // in the bubble
		for i := range 30 {
			s.A.Ask("s1", "r1", fmt.Sprint("c", i))
		}
		c := s.dial("ann", "")
		c.send(&blockstream.Subscribe{Session: "s1"})
		wait[*blockstream.Subscribed](c)
		synctest.Wait() // the frames wait for the client
		close(b.revoked)
		synctest.Wait()
		read := 0
		for ; ; read++ {
			if _, err := c.read(); err != nil {
				break
			}
		}
		if read > 2 { // one is being written, and one may be in the client's buffer
			t.Errorf("the client read %d frames after its credentials were revoked", read)
		}
	}, gatewaytest.Auth(b))
}
