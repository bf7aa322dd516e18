package webhook

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/askance-dev/askance/internal/strictjson"
)

// TypePing is the type of the message that Try sends.
const TypePing = "ping"

// ping is the body of a trial message.
type ping struct {
	Type      string    `json:"type"`
	ID        string    `json:"id"`
	Timestamp time.Time `json:"timestamp"`
}

// Try sends one trial message to a destination, signed as all are, and gives
// its id. The error says why it was not taken; it shows neither the address nor
// what the receiver said. t carries the request; nil: a transport of its own.
func Try(ctx context.Context, d Destination, t http.RoundTripper) (id string, err error) {
	if err := Check([]Destination{d}); err != nil {
		return "", err
	}
	d.defaults()
	p := ping{Type: TypePing, ID: "msg_ping_" + uuid.NewString(), Timestamp: time.Now().UTC()}
	body, err := strictjson.Marshal(p)
	if d.Format == FormatSlack {
		body, err = strictjson.Marshal(slackMessage{Text: "A trial message of askance", Blocks: []slackBlock{
			{Type: "section", Text: plainText("A trial message of askance: approval requests will come here.", slackSection)},
		}})
	}
	if err != nil {
		return "", err
	}
	return p.ID, post(ctx, newClient(t), &d, p.ID, body)
}
