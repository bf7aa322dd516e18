package agui

// Loss names something that a mapping cannot carry. The package documentation
// has the one table of all of them.
type Loss string

// The losses, by what is lost.
const (
	// To AG-UI.
	LossTime         Loss = "time"
	LossMetadata     Loss = "metadata"
	LossUsageParts   Loss = "usage-parts"
	LossMediaStream  Loss = "media-stream"
	LossResultStream Loss = "result-stream"
	LossResultState  Loss = "result-state"
	LossQuestionTime Loss = "question-time"
	LossAnswer       Loss = "answer"
	LossExternal     Loss = "external"
	LossMaxIters     Loss = "max-iters"
	LossOutOfPlace   Loss = "out-of-place"
	LossTyped        Loss = "typed"
	// From AG-UI.
	LossAsEvent   Loss = "as-event"
	LossGrouping  Loss = "grouping"
	LossUsage     Loss = "usage"
	LossAbandoned Loss = "abandoned"
	LossFile      Loss = "file"
	// To peers before 1.0.
	LossCancelled   Loss = "cancelled"
	LossPending     Loss = "pending"
	LossResultMedia Loss = "result-media"
)
