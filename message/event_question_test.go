package message_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
)

func TestQuestionEventID(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0a", 32)
	for id, want := range map[string]string{
		message.QuestionEventID("e1", digest):   digest,
		message.QuestionEventID("a-b", digest):  digest,
		message.QuestionEventID("e1", ""):       "",
		message.QuestionEventID("e1", "md5:00"): "",
		"":                                      "",
		"e1-" + strings.Repeat("0A", 32):        "",
		"e1-" + strings.Repeat("0a", 31):        "",
		"6f9619ff-8b86-d011-b42d-00c04fc964ff":  "",
		"e1-" + strings.Repeat("0a", 31) + "0":  "",
		"e1-" + strings.Repeat("0a", 31) + "zz": "",
		strings.Repeat("0a", 32):                "",
	} {
		e := &message.RequireUserConfirm{EventHeader: message.EventHeader{ID: id}}
		if got := e.QuestionDigest(); got != want {
			t.Errorf("the digest in %q is %q, want %q", id, got, want)
		}
	}
}
