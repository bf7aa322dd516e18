package agui

// The closed lists and limits that generators in tests use.
var (
	Roles             = []Role{RoleDeveloper, RoleSystem, RoleUser, RoleAssistant, RoleTool, RoleReasoning, RoleActivity}
	TextRoles         = []Role{RoleDeveloper, RoleSystem, RoleAssistant, RoleUser}
	PartTypes         = []PartType{PartText, PartImage, PartAudio, PartVideo, PartDocument}
	SourceTypes       = []SourceType{SourceData, SourceURL, SourceFile}
	PatchOps          = []PatchOpType{PatchAdd, PatchRemove, PatchReplace, PatchMove, PatchCopy, PatchTest}
	OutcomeTypes      = []OutcomeType{OutcomeSuccess, OutcomeInterrupt, OutcomeCancelled}
	SubagentOutcomes  = []SubagentOutcomeType{SubagentSuccess, SubagentSuspended}
	EncryptedSubtypes = []EncryptedSubtype{EncryptedToolCall, EncryptedMessage}
	ResumeStatuses    = []ResumeStatus{ResumeResolved, ResumeCancelled}
)

// MaxSafe is the largest integer that can be sent.
const MaxSafe = maxSafe

// IsOwn reports whether clients keep the message without the server.
var IsOwn = isOwn
