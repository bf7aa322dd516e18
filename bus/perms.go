package bus

import "github.com/askance-dev/askance/toolcall"

// Permissions are the NATS subjects that a principal may publish and subscribe
// to. They are what makes the name in a subject an identity.
type Permissions struct {
	Publish, Subscribe []string
}

// PermissionsFor gives what a principal of a role needs and no more: nothing of
// JetStream, for whoever may have JetStream answer somewhere may have it purge a
// stream. queues are what a worker may serve and nothing else, also not of the
// same tools; other roles have none. Hints and progress tell of every session: people may read them, workers not, and
// runtimes neither, who are kept apart from each other. An engine may do
// everything, an unknown role and whoever has no valid name nothing: to an
// embedded server's [embed.User] an empty list means that. (In the configuration of
// an external one leaving it empty means everything.)
func PermissionsFor(space toolcall.SpaceID, p toolcall.Principal, queues ...toolcall.Queue) Permissions {
	if CheckName("principal", p.Name) != nil || CheckSpace(space) != nil {
		return Permissions{} // an empty token would be a wildcard
	}
	who := Encode(p.Name)
	at := func(k Kind) string { return Subject{Space: space, Kind: k, Who: who}.String() }
	perms := Permissions{Subscribe: []string{InboxPrefix(p.Name) + ".>"}}
	if p.Role == toolcall.RoleEngine {
		return EnginePermissions
	}
	if p.Role == toolcall.RoleWorker {
		for _, queue := range queues {
			if checkQueue(queue) != nil {
				return Permissions{}
			}
			perms = perms.withQueue(space, who, queue)
		}
		return perms
	}
	for _, k := range kindsFor(p.Role) {
		perms.Publish = append(perms.Publish, at(k))
	}
	switch p.Role {
	case toolcall.RoleRuntime:
	case toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor:
		perms.Subscribe = append(perms.Subscribe, Subject{Space: space, Kind: KindAsk}.String(), Subject{Space: space, Kind: KindProgress}.String())
	default:
		return Permissions{}
	}
	return perms
}

// EnginePermissions is what engines need: they answer to every inbox, and NATS has no
// wildcard for the inboxes of principals alone.
var EnginePermissions = Permissions{Publish: []string{">"}, Subscribe: []string{">"}}

func (p Permissions) withQueue(space toolcall.SpaceID, who Token, queue toolcall.Queue) Permissions {
	at := func(k Kind) string {
		return Subject{Space: space, Kind: k, Who: who, Tool: EncodeQueue(queue)}.String()
	}
	for _, k := range kindsFor(toolcall.RoleWorker) {
		p.Publish = append(p.Publish, at(k))
	}
	p.Subscribe = append(p.Subscribe, at(KindCancel))
	return p
}

// nextSubject is where an engine asks for a queue's next task. No worker may:
// what the server answers goes to where the asker says, in the server's name.
func nextSubject(space toolcall.SpaceID, queue toolcall.Queue) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + StreamName(space) + "." + ConsumerName(queue)
}
