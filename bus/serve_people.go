package bus

import "github.com/askance-dev/askance/message"

// queryConversation: reading the whole space.
var queryConversation = conversation{KindQuery, message.RoleAuditor, map[Op]operation{
	OpList:   listOp,
	OpShow:   showOp,
	OpWait:   waitOp,
	OpEvents: eventsOp,
	OpInfo:   infoOp,
	OpLoad:   serve(laneAct, Surface.Load),

	OpLeases:    leasesOp,
	OpShowLease: serve(laneAct, Surface.ShowLease),
	OpExplain:   serve(laneAct, Surface.Explain),
}}

// decideConversation: what an approver does.
var decideConversation = conversation{KindDecide, message.RoleApprover, map[Op]operation{
	OpAnswer:      serve(laneAct, Surface.Answer),
	OpRevoke:      serve(laneAct, Surface.Revoke),
	OpRevokeLease: serve(laneAct, Surface.RevokeLease),
	OpInterrupt:   serve(laneAct, Surface.Interrupt),
}}

// operateConversation: what an operator does.
var operateConversation = conversation{KindOperate, message.RoleOperator, map[Op]operation{
	OpSettle:      serve(laneAct, Surface.Settle),
	OpRevoke:      serve(laneAct, Surface.Revoke),
	OpRevokeLease: serve(laneAct, Surface.RevokeLease),
	OpInterrupt:   serve(laneAct, Surface.Interrupt),
	OpReport:      serve(laneAct, Surface.Report),
}}
