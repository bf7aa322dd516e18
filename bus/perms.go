package bus

import "github.com/askance-dev/askance/toolcall"

// Permissions are the NATS subjects that a principal can publish and subscribe to.
// They make the name in a subject an identity.
type Permissions struct {
	Publish, Subscribe []string
}

// PermissionsFor returns the least permissions of a principal. queues are the only
// ones that a worker can serve.
//
// Only engines can use JetStream: a client that chooses where JetStream replies
// could let it purge a stream. Hints and progress cover every session, so only
// people read them. An unknown role or an invalid name gets empty lists: nothing
// for an embedded server, everything in the configuration of another one.
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

// EnginePermissions cover all subjects, because NATS has no wildcard for the
// inboxes of principals alone.
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

// nextSubject is where an engine asks for a queue's next task. No worker can: the
// server's reply goes where the request says, in the server's name.
func nextSubject(space toolcall.SpaceID, queue toolcall.Queue) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + StreamName(space) + "." + ConsumerName(queue)
}
