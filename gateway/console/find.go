package console

import (
	"net/http"
	"strings"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/toolcall"
)

// maxFound limits how many calls a search shows.
const maxFound = 12

// find shows the calls that match the words. The script's search palette reads this page.
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
	ctx := r.Context()
	c, err := p.Reader()
	if err != nil {
		return err
	}
	for _, r := range []toolcall.ListRequest{{Sort: toolcall.SortAge}, {All: true, Newest: true, Phases: []toolcall.Phase{toolcall.PhaseFinished}}} {
		r.V, r.Words, r.Limit = 1, words, maxFound-len(view.Found)
		if r.Limit == 0 {
			break
		}
		page, err := c.List(ctx, r)
		if err != nil {
			return in.fail(w, s, err)
		}
		mine, err := listMine(ctx, c, p, r, page.Calls)
		if err != nil {
			return in.fail(w, s, err)
		}
		for _, call := range page.Calls {
			view.Found = append(view.Found, rowOf(call, p, mine[call.Key], filter{Show: showOpen}, toolcall.Key{}, in.now()))
		}
	}
	return in.write(w, http.StatusOK, "find", view)
}
