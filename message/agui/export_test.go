package agui

// The closed lists and bounds that generators of tests draw from.
var (
	Roles             = roles
	TextRoles         = textRoles
	PartTypes         = partTypes
	SourceTypes       = sourceTypes
	PatchOps          = patchOps
	OutcomeTypes      = outcomeTypes
	SubagentOutcomes  = subagentOutcomes
	EncryptedSubtypes = encryptedSubtypes
	ResumeStatuses    = resumeStatuses
)

// MaxSafe is the largest integer of the wire.
const MaxSafe = maxSafe

// IsOwn reports whether clients keep the message without the server.
var IsOwn = isOwn
