package message

import "strings"

// RequestEventID is the id of a REQUIRE_USER_CONFIRM that askance makes: any
// id, and behind it the digest of the approval request. AgentScope's confirms carry no
// digest; who shows the event to somebody answers with this one, and no other.
func RequestEventID(id, digest string) string {
	hex, ok := strings.CutPrefix(digest, "sha256:")
	if !ok {
		return id
	}
	return id + "-" + hex
}

// RequestDigest is the digest of the approval request that the event asks; "" if it
// is not askance's.
func (x *RequireUserConfirm) RequestDigest() string {
	i := strings.LastIndexByte(x.ID, '-')
	hex := x.ID[i+1:]
	if i < 0 || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return ""
	}
	return "sha256:" + hex
}
