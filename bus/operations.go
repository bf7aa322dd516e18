package bus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Observer receives the heartbeats of all workers, including those that another replica
// answers: otherwise this replica could not declare a lease lost.
type Observer interface {
	// ObserveHeartbeat must not block. The worker and its queue are authenticated.
	ObserveHeartbeat(worker string, queue toolcall.Queue, r toolcall.HeartbeatRequest)
	// ObserveWorker must not block. The worker asks for a task of the queue; left is called if it
	// goes while it waits.
	ObserveWorker(worker string, queue toolcall.Queue) (left func())
}

// The operations that the service executes itself, without the engine.
var (
	opNext       = api.Define[NextRequest, NextReply](ofWorkers("next", "next", api.ClassOffer))
	opKeys       = api.Define[KeysRequest, KeysReply](ofWorkers("keys", "next", api.ClassWork))
	opAck        = api.Define[AckRequest, struct{}](ofWorkers("ack", "ack", api.ClassWork))
	opRecords    = api.Define[RecordsRequest, RecordsReply](ofAuditors("records", false))
	opCheckpoint = api.Define[CheckpointRequest, CheckpointReply](ofAuditors("checkpoint", true))
)

func ofWorkers(name, kind string, class api.Class) api.Operation {
	return api.Operation{Name: name, Class: class, Changes: true, Roles: []toolcall.Role{toolcall.RoleWorker}, NATS: map[toolcall.Role]string{toolcall.RoleWorker: kind}}
}

func ofAuditors(name string, changes bool) api.Operation {
	return api.Operation{Name: name, Class: api.ClassRead, Changes: changes, Roles: []toolcall.Role{toolcall.RoleAuditor}, NATS: map[toolcall.Role]string{toolcall.RoleAuditor: "audit"}}
}

// direct executes an operation in the service and sends the reply, but not an error.
type direct func(ctx context.Context, s *Service, who caller, request any, m *nats.Msg) error

var directs = map[string]direct{
	opNext.Name:       serveDirectly(opNext, (*Service).next),
	opKeys.Name:       serveDirectly(opKeys, (*Service).sendKeys),
	opAck.Name:        serveDirectly(opAck, (*Service).ackTask),
	opRecords.Name:    serveDirectly(opRecords, (*Service).auditRecords),
	opCheckpoint.Name: serveDirectly(opCheckpoint, (*Service).auditCheckpoint),
}

func serveDirectly[Req, Rep any](op api.Op[Req, Rep], do func(*Service, context.Context, caller, Req, *nats.Msg) error) direct {
	return func(ctx context.Context, s *Service, who caller, request any, m *nats.Msg) error {
		r, ok := request.(Req)
		if !ok {
			return wrongType(op.Operation, request)
		}
		return do(s, ctx, who, r, m)
	}
}

func wrongType(op *api.Operation, request any) error {
	return &message.Error{Code: message.CodeInternal, Op: op.Name, What: fmt.Sprintf("the request is a %T", request)}
}

// operations has all operations that exist over NATS, by name.
var operations = func() map[string]*api.Operation {
	out := map[string]*api.Operation{}
	for _, op := range append(api.Table(), opNext.Operation, opKeys.Operation, opAck.Operation, opRecords.Operation, opCheckpoint.Operation) {
		if len(op.NATS) > 0 {
			out[op.Name] = op
		}
	}
	return out
}()

// classOf returns the class of an operation. An unknown one counts as a read, which
// cannot displace a decision.
func classOf(name string) api.Class {
	if op, ok := operations[name]; ok {
		return op.Class
	}
	return api.ClassRead
}

// conversation is one kind of request subject with the operations that it accepts.
type conversation struct {
	Row
	ops map[string]*api.Operation
}

// conversations has one entry per kind of request subject, in the order of the
// subject table.
var conversations = func() []conversation {
	var out []conversation
	for _, row := range table {
		if row.Payload != request {
			continue
		}
		c := conversation{row, map[string]*api.Operation{}}
		for _, op := range operations {
			for _, name := range op.NATS {
				if name == row.name() {
					c.ops[op.Name] = op
				}
			}
		}
		out = append(out, c)
	}
	return out
}()

// name returns the word by which operations name a kind of request subject.
func (r Row) name() string {
	if i := strings.LastIndexByte(r.Layout, '.'); strings.HasPrefix(r.Layout, "work.") {
		return r.Layout[i+1:]
	}
	word, _, _ := strings.Cut(r.Layout, ".")
	return word
}

// kindFor returns the kind of subject on which a role sends an operation.
func kindFor(op *api.Operation, role toolcall.Role) (Kind, error) {
	if name, ok := op.NATS[role]; ok {
		for _, c := range conversations {
			if c.name() == name {
				return c.Kind, nil
			}
		}
	}
	return KindInvalid, &message.Error{Code: message.CodeForbidden, Op: op.Name, What: "the role " + string(role) + " cannot do this", Hint: "use a login with another role"}
}

// kindsFor returns the kinds of subject on which a role sends anything.
func kindsFor(role toolcall.Role) []Kind {
	var out []Kind
	for _, c := range conversations {
		for _, op := range c.ops {
			if op.NATS[role] == c.name() {
				out = append(out, c.Kind)
				break
			}
		}
	}
	return out
}

// Operations returns the role for which requests on a kind of subject are executed, and
// their operations in alphabetical order.
func Operations(k Kind) (toolcall.Role, []string) {
	for _, c := range conversations {
		if c.Kind == k {
			return c.As, slices.Sorted(maps.Keys(c.ops))
		}
	}
	return "", nil
}
