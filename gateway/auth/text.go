package auth

import "strconv"

// quote shows text of a stranger.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(s)
}
