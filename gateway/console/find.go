package console

import (
	"net/http"
	"strings"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/toolcall"
)

// maxFound is how many calls a search shows.
const maxFound = 12

// find shows the calls that match words; the palette of the script reads this page.
func (in figures) find(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	s := in.shell(r, p, "find", "Search – askance")
	words := strings.TrimSpace(r.URL.Query().Get("q"))
	view := struct {
		shell
		Words string
		Found []row
	}{shell: s, Words: words}
	if words == "" {
		return in.write(w, http.StatusOK, "find", view)
	}
	c, err := p.Reader()
	if err != nil {
		return err
	}
	open, err := engine.ListAll(r.Context(), c, toolcall.ListRequest{V: 1}, maxListed)
	if err != nil {
		return in.fail(w, s, err)
	}
	past, err := listFinished(r.Context(), c)
	if err != nil {
		return in.fail(w, s, err)
	}
	match := matcher(words)
	for _, call := range append(open, past...) {
		if len(view.Found) < maxFound && match(call) {
			view.Found = append(view.Found, rowOf(call, p, false, nil, toolcall.Key{}))
		}
	}
	return in.write(w, http.StatusOK, "find", view)
}
