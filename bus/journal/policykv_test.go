package journal_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

func openBucket(t *testing.T, b *bustest.Bus) *journal.PolicyBucket {
	t.Helper()
	p, err := journal.OpenPolicyBucket(t.Context(), b.Conn("engine"), "test", journal.PolicyBucketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// contents returns name=data for all files.
func contents(t *testing.T, p *journal.PolicyBucket) string {
	t.Helper()
	files, err := p.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		if f.Revision == 0 {
			t.Errorf("%s has no revision", f.Name)
		}
		out = append(out, f.Name+"="+string(f.Data))
	}
	return strings.Join(out, " ")
}

func put(t *testing.T, p *journal.PolicyBucket, name, data string) uint64 {
	t.Helper()
	rev, err := p.Put(t.Context(), name, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func TestPolicyBucket(t *testing.T) {
	b := bustest.New(t)
	p, other := openBucket(t, b), openBucket(t, b)
	if got := contents(t, p); got != "" {
		t.Errorf("a new bucket has %q", got)
	}
	first := put(t, p, "b.yaml", "1")
	put(t, p, "a.yml", "2")
	if got := contents(t, other); got != "a.yml=2 b.yaml=1" {
		t.Errorf("bucket has %q", got)
	}
	if rev := put(t, other, "b.yaml", "3"); rev <= first {
		t.Errorf("revision %d after %d", rev, first)
	}
	if got := contents(t, p); got != "a.yml=2 b.yaml=3" {
		t.Errorf("after a change by another: %q", got)
	}
	files, err := p.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	files[0].Data[0] = 'X'
	if got := contents(t, p); got != "a.yml=2 b.yaml=3" {
		t.Errorf("a reader has changed what others read: %q", got)
	}
	if err := other.Delete(t.Context(), "a.yml"); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, p); got != "b.yaml=3" {
		t.Errorf("after a deletion: %q", got)
	}
	for _, name := range []string{"", "a", "a.json", ".yaml", "a..yaml", "a b.yaml", "a*.yaml", "a>.yaml", "../a.yaml", "a/b.yaml", "ä.yaml", strings.Repeat("a", 130) + ".yaml"} {
		if _, err := p.Put(t.Context(), name, nil); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("Put(%q) = %v", name, err)
		}
		if err := p.Delete(t.Context(), name); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("Delete(%q) = %v", name, err)
		}
	}
	if _, err := p.Put(t.Context(), "big.yaml", make([]byte, journal.MaxPolicyBytes+1)); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("a file that is too long: %v", err)
	}
	put(t, p, "big.yaml", strings.Repeat("#", journal.MaxPolicyBytes))
}

// Keys that are not rule files and deleted buckets are errors: missing rules are never ignored.
func TestPolicyBucketFaults(t *testing.T) {
	b := bustest.New(t)
	p := openBucket(t, b)
	put(t, p, "a.yaml", "1")
	js, err := jetstream.New(b.Conn("admin"))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.KeyValue(t.Context(), p.Name())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "a.yaml.disabled", nil); err != nil {
		t.Fatal(err)
	}
	if files, err := p.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "a.yaml.disabled") {
		t.Errorf("Read = %v, %v", files, err)
	}
	if err := kv.Delete(t.Context(), "a.yaml.disabled"); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, p); got != "a.yaml=1" {
		t.Errorf("after it has gone: %q", got)
	}
	if err := js.DeleteKeyValue(t.Context(), p.Name()); err != nil {
		t.Fatal(err)
	}
	if files, err := p.Read(t.Context()); err == nil {
		t.Errorf("a deleted bucket has %v", files)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if files, err := p.Read(ctx); err == nil {
		t.Errorf("read after the end of the context: %v", files)
	}
}

func TestPolicyBucketThatForgetsIsRefused(t *testing.T) {
	b := bustest.New(t)
	js, err := jetstream.New(b.Conn("admin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	for space, c := range map[toolcall.SpaceID]jetstream.KeyValueConfig{
		"ttl": {TTL: time.Hour}, "memory": {Storage: jetstream.MemoryStorage},
		"mirror":  {Mirror: &jetstream.StreamSource{Name: "KV_elsewhere"}},
		"sources": {Sources: []*jetstream.StreamSource{{Name: "KV_elsewhere"}}},
	} {
		c.Bucket = journal.PolicyBucketName(space)
		if _, err := js.CreateKeyValue(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := journal.OpenPolicyBucket(t.Context(), b.Conn("engine"), space, journal.PolicyBucketOptions{}); err == nil {
			t.Errorf("bucket %s is accepted", space)
		}
	}
	if _, err := journal.OpenPolicyBucket(t.Context(), b.Conn("engine"), "No Space", journal.PolicyBucketOptions{}); err == nil {
		t.Error("a bad space is accepted")
	}
}

func TestPolicyBucketSurvivesARestart(t *testing.T) {
	b := bustest.New(t, bustest.Listening())
	nc := b.Dial("engine")
	p, err := journal.OpenPolicyBucket(t.Context(), nc, "test", journal.PolicyBucketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, p, "a.yaml", "1")
	b.Restart()
	if got := contents(t, openBucket(t, b)); got != "a.yaml=1" {
		t.Errorf("after a restart: %q", got)
	}
}

// bucketSource is what a program makes of a bucket for permission.Live.
type bucketSource struct{ *journal.PolicyBucket }

func (s bucketSource) Read(ctx context.Context) ([]permission.File, error) {
	found, err := s.PolicyBucket.Read(ctx)
	files := make([]permission.File, len(found))
	for i, f := range found {
		files[i] = permission.File{Name: s.Name() + "/" + f.Name, Data: f.Data}
	}
	return files, err
}

// A changed policy in a bucket is adopted at once, and an invalid policy leaves the last valid one in
// force.
func TestLivePolicyFromABucket(t *testing.T) {
	b := bustest.New(t)
	p := openBucket(t, b)
	live, err := permission.NewLive(bucketSource{p}, permission.LiveOptions{Options: permission.Options{Tools: []permission.Tool{{Name: "t"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Reload(t.Context()); err == nil {
		t.Error("an empty bucket is a policy")
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- p.Follow(ctx, func() {
			select {
			case changes <- struct{}{}:
			default: // the last one was not read yet
			}
		})
	}()
	text := func(behavior string) string {
		return "version: 1\nname: kv\nrules:\n  - {name: r, tool_name: t, behavior: " + behavior + "}\n"
	}
	// Follow may begin after the first change, so put until it reports one.
	for heard := false; !heard; {
		put(t, p, "main.yaml", text("ask"))
		select {
		case <-changes:
			heard = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	for _, step := range []struct {
		text string
		want message.Behavior
		good bool
	}{
		{text("deny"), message.BehaviorDeny, true}, {"rules: [", message.BehaviorDeny, false}, {text("allow"), message.BehaviorAllow, true},
	} {
		put(t, p, "main.yaml", step.text)
		<-changes
		if err := live.Reload(t.Context()); (err == nil) != step.good {
			t.Errorf("%q: %v", step.text, err)
		}
		if s := live.Status(); (s.Alarm == "") != step.good {
			t.Errorf("%q: alarm %q", step.text, s.Alarm)
		}
		if d := live.Decide(t.Context(), permission.Request{Tool: "t", Input: []byte(`{}`)}); d.Behavior != step.want || d.Bundle != live.Hash() {
			t.Errorf("%q: %s by %s", step.text, d.Behavior, d.Step)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow ended with %v", err)
	}
}
