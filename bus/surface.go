package bus

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

// Surface is the engine as one principal may use it: engine.Client and
// engine.WorkerClient in one. The engine checks the principal's rights; the
// service vouches for its name.
type Surface interface {
	Propose(ctx context.Context, r message.ProposeRequest) (message.ProposeReply, error)
	Wait(ctx context.Context, r message.WaitRequest) (message.WaitReply, error)
	Emit(ctx context.Context, r message.EmitRequest) (message.EmitReply, error)
	Events(ctx context.Context, r message.EventsRequest) (message.EventsReply, error)
	Report(ctx context.Context, r message.ReportRequest) (*message.Call, error)
	Answer(ctx context.Context, r message.Answer) (*message.Call, error)
	Interrupt(ctx context.Context, r message.InterruptRequest) (message.InterruptReply, error)
	Settle(ctx context.Context, r message.SettleRequest) (*message.Call, error)
	Revoke(ctx context.Context, r message.RevokeRequest) (*message.Call, error)
	List(ctx context.Context, r message.ListRequest) (message.ListReply, error)
	Show(ctx context.Context, r message.ShowRequest) (message.ShowReply, error)
	Info(ctx context.Context) (message.InfoReply, error)
	Load(ctx context.Context, r message.LoadRequest) (message.LoadReply, error)
	Leases(ctx context.Context, r message.LeasesRequest) (message.LeasesReply, error)
	ShowLease(ctx context.Context, r message.ShowLeaseRequest) (message.ShowLeaseReply, error)
	RevokeLease(ctx context.Context, r message.RevokeLeaseRequest) (*message.Lease, error)
	Explain(ctx context.Context, r message.ExplainRequest) (message.ExplainReply, error)

	Start(ctx context.Context, r message.StartRequest) (message.StartReply, error)
	Heartbeat(ctx context.Context, r message.HeartbeatRequest) (message.HeartbeatReply, error)
	Progress(ctx context.Context, r message.ProgressRequest) error
	Result(ctx context.Context, r message.ResultRequest) (message.ResultReply, error)
}

// Observer is told of every worker's heartbeat, also of those that another
// replica answers: only so may a replica one day declare a lease lost.
type Observer interface {
	// ObserveHeartbeat must not block. worker is authenticated.
	ObserveHeartbeat(worker string, r message.HeartbeatRequest)
}

// operation is one op of one conversation.
type operation struct {
	// request and reply are the types of the bodies; an empty struct: none.
	request, reply reflect.Type
	// run decodes the body, asks the engine and encodes the reply, of at most
	// most bytes.
	run func(ctx context.Context, s Surface, op Op, body []byte, most int) ([]byte, error)
	// direct, if set, is carried out instead by the service itself. It answers; an
	// error is answered for it.
	direct func(ctx context.Context, s *Service, who caller, body []byte, m *nats.Msg) error
}

// conversation is what one kind of subject takes, and as whom.
type conversation struct {
	kind Kind
	role message.Role
	ops  map[Op]operation
}

// conversations has one entry per kind of request subject. Each is described
// in a file of its own.
var conversations = []conversation{
	proposeConversation, interruptConversation, queryConversation, auditConversation, decideConversation, operateConversation,
	nextConversation, ackConversation, startConversation, heartbeatConversation, progressConversation, resultConversation,
}

// Operations lists the ops that a kind of subject takes, in alphabetical
// order, and the role in which they are carried out.
func Operations(k Kind) (message.Role, []Op) {
	for _, c := range conversations {
		if c.kind == k {
			return c.role, slices.Sorted(maps.Keys(c.ops))
		}
	}
	return "", nil
}

// serve makes an operation of a method of Surface.
func serve[Req, Rep any](method func(Surface, context.Context, Req) (Rep, error)) operation {
	return operation{request: reflect.TypeFor[Req](), reply: reflect.TypeFor[Rep](), run: func(ctx context.Context, s Surface, op Op, body []byte, most int) ([]byte, error) {
		var r Req
		if err := decodeBody(op, body, &r); err != nil {
			return nil, err
		}
		rep, err := method(s, ctx, r)
		if err != nil {
			return nil, err
		}
		return encodeReply(op, rep, most)
	}}
}

// direct makes an operation of a method of Service.
func direct[Req, Rep any](method func(s *Service, ctx context.Context, who caller, r Req, m *nats.Msg) error) operation {
	return operation{request: reflect.TypeFor[Req](), reply: reflect.TypeFor[Rep](), direct: func(ctx context.Context, s *Service, who caller, body []byte, m *nats.Msg) error {
		var r Req
		if err := decodeBody("request", body, &r); err != nil {
			return err
		}
		return method(s, ctx, who, r, m)
	}}
}

// paged makes an operation of a method that returns at most limit things: if
// they do not fit a message it asks again for half as many.
func paged[Req, Rep any](method func(Surface, context.Context, Req) (Rep, error), limit func(*Req) *int, count func(Rep) int) operation {
	return operation{request: reflect.TypeFor[Req](), reply: reflect.TypeFor[Rep](), run: func(ctx context.Context, s Surface, op Op, body []byte, most int) ([]byte, error) {
		var r Req
		if err := decodeBody(op, body, &r); err != nil {
			return nil, err
		}
		for {
			rep, err := method(s, ctx, r)
			if err != nil {
				return nil, err
			}
			b, err := encodeReply(op, rep, most)
			asked := *limit(&r)
			if n := count(rep); asked <= 0 || asked > n {
				asked = n
			}
			if err == nil || asked <= 1 {
				return b, err
			}
			*limit(&r) = asked / 2
		}
	}}
}
