package bus_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

// toHere dials this machine for any host.
type toHere struct{ t *testing.T }

func (h toHere) Dial(network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	return dialer.DialContext(h.t.Context(), network, "127.0.0.1:"+port)
}

// A login is sent to another machine only encrypted, unless plain text is permitted.
func TestPlainText(t *testing.T) {
	dir := t.TempDir()
	server, err := embed.Start(t.Context(), embed.Options{StoreDir: dir, Listen: "127.0.0.1:0", Users: []embed.User{{Name: "ann", Password: "secret"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		host      string
		plain, ok bool
	}{
		{"127.0.0.1", false, true}, {"127.0.0.2", false, true}, {"localhost", false, true}, {"0.0.0.0", false, true}, {"[::ffff:127.0.0.1]", false, true},
		{"nats.example", false, false}, {"192.0.2.7", false, false}, {"localhost.example", false, false},
		{"nats.example", true, true},
	} {
		url := "nats://" + tc.host + ":" + port
		nc, err := bus.Connect(t.Context(), url, bus.ConnectOptions{Principal: "ann", User: "ann", Password: "secret", PlainText: tc.plain, Extra: []nats.Option{nats.SetCustomDialer(toHere{t})}})
		if err == nil {
			nc.Close()
		}
		if tc.ok != (err == nil) || !tc.ok && (!errors.Is(err, message.ErrForbidden) || !strings.Contains(err.Error(), "plain text")) {
			t.Errorf("%s, plain text permitted %v: %v", tc.host, tc.plain, err)
		}
	}
}

// A server accepts no logins in plain text from other machines unless configured to.
func TestServerPlainText(t *testing.T) {
	users := []embed.User{{Name: "ann", Password: "secret"}}
	for name, tc := range map[string]struct {
		o    embed.Options
		code error
	}{
		"logins":            {embed.Options{Listen: "0.0.0.0:0", Users: users}, message.ErrInvalid},
		"permitted":         {embed.Options{Listen: "0.0.0.0:0", Users: users, PlainText: true}, nil},
		"no logins":         {embed.Options{Listen: "0.0.0.0:0"}, nil},
		"half":              {embed.Options{Listen: "0.0.0.0:0", TLSCert: "x.pem"}, message.ErrInvalid},
		"no file":           {embed.Options{Listen: "127.0.0.1:0", TLSCert: "x.pem", TLSKey: "x.key"}, message.ErrNotFound},
		"rubbish":           {embed.Options{Listen: "127.0.0.1:0", TLSCert: "rubbish", TLSKey: "rubbish"}, message.ErrInvalid},
		"an open key":       {embed.Options{Listen: "127.0.0.1:0", TLSCert: "open", TLSKey: "open"}, message.ErrForbidden},
		"loopback, a login": {embed.Options{Listen: "127.0.0.1:0", Users: users}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, mode := range map[string]os.FileMode{"rubbish": 0o600, "open": 0o644} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte("rubbish"), mode); err != nil {
					t.Fatal(err)
				}
			}
			o := tc.o
			o.StoreDir = filepath.Join(dir, "store")
			if o.TLSCert != "" {
				o.TLSCert = filepath.Join(dir, o.TLSCert)
			}
			if o.TLSKey != "" {
				o.TLSKey = filepath.Join(dir, o.TLSKey)
			}
			s, err := embed.Start(t.Context(), o)
			if err == nil {
				s.Close()
			}
			if tc.code == nil && err != nil || tc.code != nil && !errors.Is(err, tc.code) {
				t.Errorf("StartServer: %v, want %v", err, tc.code)
			}
		})
	}
}
