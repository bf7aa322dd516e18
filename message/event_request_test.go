package message_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
)

func TestRequestEventID(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0a", 32)
	for id, want := range map[string]string{
		message.RequestEventID("e1", digest):    digest,
		message.RequestEventID("a-b", digest):   digest,
		message.RequestEventID("e1", ""):        "",
		message.RequestEventID("e1", "md5:00"):  "",
		"":                                      "",
		"e1-" + strings.Repeat("0A", 32):        "",
		"e1-" + strings.Repeat("0a", 31):        "",
		"6f9619ff-8b86-d011-b42d-00c04fc964ff":  "",
		"e1-" + strings.Repeat("0a", 31) + "0":  "",
		"e1-" + strings.Repeat("0a", 31) + "zz": "",
		strings.Repeat("0a", 32):                "",
	} {
		e := &message.RequireUserConfirm{EventHeader: message.EventHeader{ID: id}}
		if got := e.RequestDigest(); got != want {
			t.Errorf("the digest in %q is %q, want %q", id, got, want)
		}
	}
}
