package agui

// Loss names something that cannot be carried.
type Loss string

// What peers before 1.0 cannot be told; see [Peer.Adapt].
const (
	LossCancelled   Loss = "cancelled"
	LossPending     Loss = "pending"
	LossResultMedia Loss = "result-media"
)
