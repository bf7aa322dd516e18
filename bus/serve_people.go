package bus

import "github.com/askance-dev/askance/message"

// queryConversation: reading the whole space.
var queryConversation = conversation{KindQuery, message.RoleAuditor, map[Op]operation{
	OpList:   listOp,
	OpShow:   showOp,
	OpWait:   waitOp,
	OpEvents: eventsOp,
	OpInfo:   infoOp,
	OpLoad:   serve(Surface.Load),

	OpLeases:    leasesOp,
	OpShowLease: serve(Surface.ShowLease),
	OpExplain:   serve(Surface.Explain),
}}

// decideConversation: what an approver does.
var decideConversation = conversation{KindDecide, message.RoleApprover, map[Op]operation{
	OpAnswer:      serve(Surface.Answer),
	OpRevoke:      serve(Surface.Revoke),
	OpRevokeLease: serve(Surface.RevokeLease),
	OpInterrupt:   serve(Surface.Interrupt),
}}

// operateConversation: what an operator does.
var operateConversation = conversation{KindOperate, message.RoleOperator, map[Op]operation{
	OpSettle:      serve(Surface.Settle),
	OpRevoke:      serve(Surface.Revoke),
	OpRevokeLease: serve(Surface.RevokeLease),
	OpInterrupt:   serve(Surface.Interrupt),
	OpReport:      serve(Surface.Report),
}}
