package bus

import "github.com/askance-dev/askance/message"

// leasesOp lists remembered rules.
var leasesOp = paged(Surface.Leases,
	func(r *message.LeasesRequest) *int { return &r.Limit },
	func(r message.LeasesReply) int { return len(r.Leases) })
