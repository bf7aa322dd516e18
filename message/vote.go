package message

import "time"

// ResponseKind is what an approver decided.
type ResponseKind string

// The kinds of answer.
const (
	ResponseApprove ResponseKind = "approve" // with Input set: approve these edited arguments
	ResponseReject  ResponseKind = "reject"
	ResponseRespond ResponseKind = "respond" // the approver gives the result, the tool does not run
	// ResponseSkip and ResponseDelegate leave the approval request to others; Delegate
	// names who should look at it. Neither lets anybody answer who could not.
	ResponseSkip     ResponseKind = "skip"
	ResponseDelegate ResponseKind = "delegate"
)

// Vote is an answer as event records keep it. By.Auth says how the person was
// authenticated.
type Vote struct {
	ID       string       `json:"response_id,omitzero"` // of the answer, if its sender gave one
	Kind     ResponseKind `json:"kind"`
	By       Principal    `json:"by"`
	At       time.Time    `json:"at"`
	Digest   string       `json:"digest"` // of the approval request that was answered
	Edited   bool         `json:"edited,omitzero"`
	Feedback string       `json:"feedback,omitzero"`

	// Groups are those groups of the person that the requirement names, when they
	// answered, and GroupsFrom is the directory that knew them.
	Groups     []string `json:"groups,omitzero"`
	GroupsFrom string   `json:"groups_from,omitzero"`
	// Step is how many instants of the requirement's plan had come.
	Step int `json:"step,omitzero"`
	// Made, of an edit, is the digest of the approval request with the new arguments, if
	// the edit counts as an approval of it.
	Made string `json:"made,omitzero"`
	Note string `json:"note,omitzero"` // of skip and delegate, for people
	To   string `json:"to,omitzero"`   // of delegate: who should answer
	// Signature of an approval with the person's own key, which the engine has
	// checked.
	Signature *ApproverSignature `json:"signature,omitzero"`
	// Rules that this approval wants remembered.
	Rules []PermissionRule `json:"rules,omitzero"`
	// Remember is what this approval wants remembered on terms.
	Remember *StandingTerms `json:"remember,omitzero"`
}

// On reports whether the vote is about the approval request with this digest.
func (v Vote) On(digest string) bool {
	return v.Made == digest && digest != "" || !v.Edited && v.Digest == digest
}
