package bus_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

func initCreds(t *testing.T) (*creds.Folder, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "creds")
	c, err := creds.Init(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
}

func addLogin(t *testing.T, c *creds.Folder, role toolcall.Role, name string, tools ...string) string {
	t.Helper()
	path, err := c.Add(t.Context(), creds.User{Space: "test", Role: role, Name: name, Tools: tools}, false)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// trusting starts the server with the folder's credentials.
func trusting(t *testing.T, dir string) bustest.Option {
	t.Helper()
	trust, err := creds.LoadTrust(dir)
	if err != nil {
		t.Fatal(err)
	}
	return bustest.With(func(o *embed.Options) { o.Trust, o.Login = trust, creds.EngineLogin(dir) })
}

// A login cannot use up the server's memory with subscriptions.
func TestLoginsHaveFewSubscriptions(t *testing.T) {
	c, dir := initCreds(t)
	path := addLogin(t, c, toolcall.RoleRuntime, "bot")
	b := bustest.New(t, bustest.Listening(), trusting(t, dir))
	full := make(chan error, 1)
	nc, err := bus.Connect(t.Context(), b.URL(), bus.ConnectOptions{Principal: "bot", CredsFile: path})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case full <- err:
		default:
		}
	})
	for range creds.MaxSubscriptions + 1 {
		if _, err := nc.SubscribeSync(nc.NewInbox()); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-full:
		if !errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
			t.Errorf("the server reports %v", err)
		}
	case <-time.After(bustest.Patience):
		t.Error("the server takes any number of subscriptions")
	}
}

// Only the owner can read secrets, and files for everyone contain none.
func TestCredsFiles(t *testing.T) {
	c, dir := initCreds(t)
	path := addLogin(t, c, toolcall.RoleApprover, "ann@example.org")
	var seeds [][]byte
	public := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			public[path] = b
			return nil
		}
		for line := range bytes.Lines(b) {
			if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("S")) && len(line) == 58 {
				seeds = append(seeds, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seeds) != 4 || len(public) != 3 { // operator, account, engines, ann; three tokens
		t.Errorf("%d secrets and %d public files, want 4 and 3", len(seeds), len(public))
	}
	trust, err := creds.LoadTrust(dir)
	if err != nil {
		t.Fatal(err)
	}
	public["the server's configuration"] = []byte(trust.ServerConfig())
	for name, b := range public {
		for _, seed := range seeds {
			if bytes.Contains(b, seed) {
				t.Errorf("%s has a secret", name)
			}
		}
	}
	u, err := creds.ReadLogin(path)
	if err != nil || u.Space != "test" || u.Role != toolcall.RoleApprover || u.Name != "ann@example.org" {
		t.Errorf("the login is for %+v, %v", u, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := creds.ReadLogin(path); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("a login that others can read: %v, want forbidden", err)
	}
}

func TestCredsRefuse(t *testing.T) {
	c, dir := initCreds(t)
	addLogin(t, c, toolcall.RoleApprover, "ann")
	addLogin(t, c, toolcall.RoleRuntime, "bot")
	for _, tc := range []struct {
		name string
		u    creds.User
		want error
	}{
		{"no role", creds.User{Space: "test", Name: "x"}, message.ErrInvalid},
		{"an unknown role", creds.User{Space: "test", Role: "root", Name: "x"}, message.ErrInvalid},
		{"no name", creds.User{Space: "test", Role: toolcall.RoleApprover}, message.ErrInvalid},
		{"a name with a space at its end", creds.User{Space: "test", Role: toolcall.RoleApprover, Name: "ann "}, message.ErrInvalid},
		{"a name with an invisible character", creds.User{Space: "test", Role: toolcall.RoleApprover, Name: "ann\u200b"}, message.ErrInvalid},
		{"a name of two lines", creds.User{Space: "test", Role: toolcall.RoleRuntime, Name: "a\nb"}, message.ErrInvalid},
		{"a name that is not in form NFC", creds.User{Space: "test", Role: toolcall.RoleApprover, Name: "Mu\u0308ller"}, message.ErrInvalid},
		{"no space", creds.User{Role: toolcall.RoleApprover, Name: "x"}, message.ErrInvalid},
		{"a space with a wildcard", creds.User{Space: "*", Role: toolcall.RoleApprover, Name: "x"}, message.ErrInvalid},
		{"a worker without tools", creds.User{Space: "test", Role: toolcall.RoleWorker, Name: "x"}, message.ErrInvalid},
		{"a worker with a nameless tool", creds.User{Space: "test", Role: toolcall.RoleWorker, Name: "x", Tools: []string{""}}, message.ErrInvalid},
		{"an approver with tools", creds.User{Space: "test", Role: toolcall.RoleApprover, Name: "x", Tools: []string{"t"}}, message.ErrInvalid},
		{"the gateway's name", creds.User{Space: "test", Role: toolcall.RoleRuntime, Name: "askance-gateway"}, message.ErrInvalid},
		{"a program of another space", creds.User{Space: "prod", Role: toolcall.RoleRuntime, Name: "bot"}, message.ErrInvalid},
		{"a person of another space", creds.User{Space: "prod", Role: toolcall.RoleOperator, Name: "ann"}, message.ErrInvalid},
		{"the engines' name", creds.User{Space: "test", Role: toolcall.RoleAuditor, Name: creds.EngineName}, message.ErrInvalid},
		{"an engine of another name", creds.User{Role: toolcall.RoleEngine, Name: "x"}, message.ErrInvalid},
		{"an agent with a person's inbox", creds.User{Space: "test", Role: toolcall.RoleRuntime, Name: "ann"}, message.ErrInvalid},
		{"the same in another space", creds.User{Space: "prod", Role: toolcall.RoleRuntime, Name: "ann"}, message.ErrInvalid},
		{"a person with an agent's inbox", creds.User{Space: "test", Role: toolcall.RoleApprover, Name: "bot"}, message.ErrInvalid},
		{"an expired login", creds.User{Space: "test", Role: toolcall.RoleAuditor, Name: "x", Expires: time.Now().Add(-time.Second)}, message.ErrInvalid},
		{"an existing login", creds.User{Space: "test", Role: toolcall.RoleApprover, Name: "ann"}, message.ErrConflict},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path, err := c.Add(t.Context(), tc.u, false)
			if !errors.Is(err, tc.want) || path != "" {
				t.Errorf("%q, %v; want %v", path, err, tc.want)
			}
		})
	}
	if _, err := creds.Init(t.Context(), dir); !errors.Is(err, message.ErrConflict) {
		t.Errorf("a second init: %v", err)
	}
	if err := c.Revoke(t.Context(), creds.User{Space: "test", Role: toolcall.RoleAuditor, Name: "unknown"}); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("revoking an unknown user: %v", err)
	}
	if _, err := creds.Open(t.TempDir()); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("a folder without credentials: %v", err)
	}
	if _, err := creds.LoadTrust(t.TempDir()); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("trust of a folder without credentials: %v", err)
	}
	// A person may hold several roles, and anyone the same role in another space if requested.
	addLogin(t, c, toolcall.RoleOperator, "ann")
	if _, err := c.Add(t.Context(), creds.User{Space: "prod", Role: toolcall.RoleRuntime, Name: "bot", SameOwner: true}, false); err != nil {
		t.Error(err)
	}
	users, err := c.Users()
	if err != nil || len(users) != 5 {
		t.Errorf("%d users, %v; want 5 with the engines", len(users), err)
	}
}

// TestInterruptedInit checks that the next try makes a complete folder if a file was not written.
func TestInterruptedInit(t *testing.T) {
	for _, file := range []string{"secrets/account.nk", "account.jwt", "users.json", "engine.creds"} {
		dir := filepath.Join(t.TempDir(), "creds")
		inTheWay := filepath.Join(dir, file, "x")
		if err := os.MkdirAll(inTheWay, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := creds.Init(t.Context(), dir); err == nil {
			t.Fatalf("created without %s", file)
		}
		if _, err := creds.LoadTrust(dir); !errors.Is(err, message.ErrNotFound) || !strings.Contains(err.Error(), "askance creds init") {
			t.Errorf("without %s: %v, want a hint to create it again", file, err)
		}
		if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
			t.Fatal(err)
		}
		c, err := creds.Init(t.Context(), dir)
		if err != nil {
			t.Fatalf("again, after %s could not be written: %v", file, err)
		}
		if users, err := c.Users(); err != nil || len(users) != 1 {
			t.Errorf("%d logins, %v; want the engine's", len(users), err)
		}
		bustest.New(t, trusting(t, dir)).Close()
	}
}

// An account that the operator did not sign is refused.
func TestTrustOfAnotherOperator(t *testing.T) {
	_, dir := initCreds(t)
	_, other := initCreds(t)
	for _, name := range []string{"account.jwt", "system.jwt", "operator.jwt"} {
		mine, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range map[string][]byte{"another's": theirs, "nothing": nil, "half": mine[:len(mine)/2]} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := creds.LoadTrust(dir); !errors.Is(err, message.ErrInvalid) {
				t.Errorf("%s %s: %v, want invalid", what, name, err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), mine, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := creds.LoadTrust(dir); err != nil {
		t.Error(err)
	}
}

// The server refuses connections without a login, with a login of another folder, with only the
// token, and with a revoked or expired login.
func TestOnlyLoginsGetIn(t *testing.T) {
	c, dir := initCreds(t)
	foreign, _ := initCreds(t)
	ann := addLogin(t, c, toolcall.RoleApprover, "ann")
	bob := addLogin(t, c, toolcall.RoleApprover, "bob")
	stranger := addLogin(t, foreign, toolcall.RoleApprover, "ann")
	stolen := filepath.Join(t.TempDir(), "stolen.creds")
	if err := os.WriteFile(stolen, spliced(t, ann, stranger), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, bustest.Listening(), trusting(t, dir))
	refused := func(what string, o bus.ConnectOptions) {
		t.Helper()
		if nc, err := bus.Connect(t.Context(), w.URL(), o); !errors.Is(err, message.ErrForbidden) {
			if err == nil {
				nc.Close()
			}
			t.Errorf("%s: %v, want forbidden", what, err)
		}
	}
	refused("no login", bus.ConnectOptions{Principal: "ann"})
	refused("a password", bus.ConnectOptions{Principal: "ann", User: "ann", Password: "pw"})
	refused("another folder's login", bus.ConnectOptions{Principal: "ann", CredsFile: stranger})
	refused("a token with another's key", bus.ConnectOptions{Principal: "ann", CredsFile: stolen})

	nc, err := bus.Connect(t.Context(), w.URL(), bus.ConnectOptions{Principal: "ann", CredsFile: ann})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	lost := nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	held := filepath.Join(t.TempDir(), "ann.creds")
	copyFile(t, ann, held)
	if err := c.Revoke(t.Context(), creds.User{Space: "test", Role: toolcall.RoleApprover, Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	trust, err := creds.LoadTrust(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.UseTrust(trust); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lost:
	case <-time.After(bustest.Patience):
		t.Error("a revoked login is still connected")
	}
	refused("a revoked login", bus.ConnectOptions{Principal: "ann", CredsFile: held})
	again := addLogin(t, c, toolcall.RoleApprover, "ann")
	for name, path := range map[string]string{"ann": again, "bob": bob} {
		nc, err := bus.Connect(t.Context(), w.URL(), bus.ConnectOptions{Principal: name, CredsFile: path})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		nc.Close()
	}
}

// spliced has the token of one login and the key of another.
func spliced(t *testing.T, token, key string) []byte {
	t.Helper()
	const border = "-----BEGIN USER NKEY SEED-----"
	a, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(a), border)
	_, tail, ok := strings.Cut(string(b), border)
	if !ok {
		t.Fatal("no seed in a login")
	}
	return []byte(head + border + tail)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Replacing a login revokes the previous one.
func TestReplaceLogin(t *testing.T) {
	c, dir := initCreds(t)
	before := addLogin(t, c, toolcall.RoleWorker, "wk", job)
	held := filepath.Join(t.TempDir(), "old.creds")
	copyFile(t, before, held)
	now, err := c.Add(t.Context(), creds.User{Space: "test", Role: toolcall.RoleWorker, Name: "wk", Tools: []string{job, otherJob}}, true)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, bustest.Listening(), trusting(t, dir))
	if nc, err := bus.Connect(t.Context(), w.URL(), bus.ConnectOptions{Principal: "wk", CredsFile: held}); !errors.Is(err, message.ErrForbidden) {
		if err == nil {
			nc.Close()
		}
		t.Errorf("the previous login: %v", err)
	}
	nc, err := bus.Connect(t.Context(), w.URL(), bus.ConnectOptions{Principal: "wk", CredsFile: now})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if trust, err := creds.LoadTrust(dir); err != nil || trust.Revoked() != 1 {
		t.Errorf("revoked %d, %v; want 1", trust.Revoked(), err)
	}
}

// A revocation ends a login that was issued while the clock was ahead.
func TestRevokeAfterClockSetBack(t *testing.T) {
	c, dir := initCreds(t)
	held := filepath.Join(t.TempDir(), "old.creds")
	copyFile(t, addLogin(t, c, toolcall.RoleWorker, "wk", job), held)
	synctest.Test(t, func(t *testing.T) { // its clock is decades behind
		if err := c.Revoke(t.Context(), creds.User{Space: "test", Role: toolcall.RoleWorker, Name: "wk"}); err != nil {
			t.Fatal(err)
		}
	})
	w := newWorld(t, bustest.Listening(), trusting(t, dir))
	if nc, err := bus.Connect(t.Context(), w.URL(), bus.ConnectOptions{Principal: "wk", CredsFile: held}); !errors.Is(err, message.ErrForbidden) {
		if err == nil {
			nc.Close()
		}
		t.Errorf("the revoked login: %v", err)
	}
}

// Several processes can add users at once without losing any from the list.
func TestCredsAtOnce(t *testing.T) {
	c, _ := initCreds(t)
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		wg.Go(func() {
			if _, err := c.Add(t.Context(), creds.User{Space: "test", Role: toolcall.RoleRuntime, Name: name}, false); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if users, err := c.Users(); err != nil || len(users) != 7 {
		t.Errorf("%d users, %v; want 7", len(users), err)
	}
}

// A journal survives turning credentials on, renewing them and turning them off. Turning them off
// while others can connect must be requested explicitly.
func TestJournalOutlivesCredentials(t *testing.T) {
	store := t.TempDir()
	_, first := initCreds(t)
	_, second := initCreds(t)
	keys, err := keyfile.New()
	if err != nil {
		t.Fatal(err)
	}
	trust := func(dir string) func(*embed.Options) {
		return func(o *embed.Options) {
			if o.Trust, err = creds.LoadTrust(dir); err != nil {
				t.Fatal(err)
			}
			o.Login = creds.EngineLogin(dir)
		}
	}
	listen := func(o *embed.Options) { o.Listen = "127.0.0.1:0" }
	for i, step := range []struct {
		name string
		with []func(*embed.Options)
	}{
		{"open", []func(*embed.Options){listen}},
		{"with credentials", []func(*embed.Options){listen, trust(first)}},
		{"with others", []func(*embed.Options){listen, trust(second)}},
		{"on its own", nil},
		{"with the first again", []func(*embed.Options){trust(first)}},
		{"open again", []func(*embed.Options){listen, func(o *embed.Options) { o.Reopen = true }}},
	} {
		o := embed.Options{StoreDir: store, Durability: journal.DurabilityCached}
		for _, f := range step.with {
			f(&o)
		}
		s, err := embed.Start(t.Context(), o)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		nc, err := s.Connect(t.Context(), bus.ConnectOptions{Principal: creds.EngineName})
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		j, err := journal.Open(t.Context(), nc, "test", keys, journal.Options{})
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var prev uint64
		if r, err := j.Last(t.Context(), bustest.CallKey("c1")); err == nil {
			prev = r.Seq
		}
		if prev != uint64(i) {
			t.Errorf("%s: the journal ends at %d, want %d", step.name, prev, i)
		}
		bustest.MustAppend(t, j, bustest.CallRecord(bustest.ID(i), bustest.CallKey("c1"), message.ToolCallPending, "propose"), prev)
		nc.Close()
		s.Close()
		if step.name != "with credentials" && step.name != "on its own" {
			continue
		}
		if s, err := embed.Start(t.Context(), embed.Options{StoreDir: store, Listen: "127.0.0.1:0"}); !errors.Is(err, embed.ErrStoreTrust) {
			if err == nil {
				s.Close()
			}
			t.Errorf("opened to everyone: %v, want a refusal", err)
		}
	}
}
