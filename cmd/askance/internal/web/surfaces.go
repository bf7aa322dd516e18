package web

import (
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/inbox"
)

// surfaces is everything that askance serve serves over HTTP: one line each.
func (w *Web) surfaces() []gateway.Surface {
	return []gateway.Surface{
		w.health(),
		inbox.New(),
	}
}
