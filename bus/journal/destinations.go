package journal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// servedLately is longer than a process waits for slow receivers before it asks for more.
const servedLately = 2 * time.Minute

// outboxPlace is the last record that a destination has received, with all before it. It outlives
// the consumer, which anyone with access to the stream can delete.
type outboxPlace struct {
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"` // when a process last saw that
}

func placeKey(destination string) string { return "at." + destination }

// openConsumer opens the consumer of a destination. If there is none, it creates one that begins
// after the last known place, or with new records.
func (o *Outbox) openConsumer(ctx context.Context, name string, last *outboxPlace) (jetstream.Consumer, error) {
	cfg := jetstream.ConsumerConfig{
		Durable: outboxConsumer(name), Description: "askance deliveries to " + name,
		DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckExplicitPolicy, AckWait: outboxWait,
		MaxDeliver: -1, MaxAckPending: outboxPending, InactiveThreshold: outboxForgotten,
		FilterSubjects: outboxFilters(o.j.space), ReplayPolicy: jetstream.ReplayInstantPolicy,
		Metadata: map[string]string{metaKind: kindOutbox, metaSpace: string(o.j.space)},
	}
	js, stream := o.j.store.js, o.j.store.stream
	found, err := js.Consumer(ctx, stream, cfg.Durable)
	if err == nil {
		now := found.CachedInfo().Config
		if now.Metadata[metaKind] != kindOutbox {
			return nil, jetstream.ErrConsumerExists
		}
		cfg.DeliverPolicy, cfg.OptStartSeq = now.DeliverPolicy, now.OptStartSeq
		return js.UpdateConsumer(ctx, stream, cfg) // fails if it was deleted meanwhile
	}
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, err
	}
	if err := o.readPlace(ctx, name, last); err != nil {
		return nil, err
	}
	if last.Seq > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, last.Seq+1
	}
	c, err := js.CreateConsumer(ctx, stream, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return nil, errors.New("another process created the consumer")
	}
	if err == nil && last.Seq > 0 {
		o.j.log.Warn("the consumer of a webhook destination was deleted: it continues after the last record that it is known to have received. Some may come again; those about records that were archived meanwhile are not sent", "destination", name, "after", last.Seq)
	}
	return c, err
}

// readPlace reads the place that any process noted last, unless this one knows a later one. One
// that NATS would have forgotten counts as none.
func (o *Outbox) readPlace(ctx context.Context, name string, last *outboxPlace) error {
	e, err := o.kv.Get(ctx, placeKey(name))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var noted outboxPlace
	if err := strictjson.Unmarshal(e.Value(), &noted); err != nil {
		return err
	}
	if noted.Seq > last.Seq && time.Since(noted.At) < outboxForgotten {
		*last = noted
	}
	return nil
}

// notePlaces notes what a destination has received, until ctx ends.
func (o *Outbox) notePlaces(ctx context.Context, name string, c jetstream.Consumer, last *outboxPlace) {
	for ok := true; ok; ok = sleep.For(ctx, outboxNote) == nil {
		info, err := c.Info(ctx)
		now := time.Now().UTC()
		if err != nil || info.AckFloor.Stream <= last.Seq && now.Sub(last.At) < outboxForgotten/30 {
			continue
		}
		*last = outboxPlace{Seq: max(last.Seq, info.AckFloor.Stream), At: now}
		b, err := strictjson.Marshal(last)
		if err == nil {
			_, err = o.kv.Put(ctx, placeKey(name), b)
		}
		if err != nil {
			last.At = time.Time{} // it is noted again
		}
	}
}

// hasPlace reports whether a place of a destination is noted.
func hasPlace(ctx context.Context, js jetstream.JetStream, space toolcall.SpaceID, name string) (bool, error) {
	kv, err := js.KeyValue(ctx, OutboxBucketName(space))
	if err == nil {
		_, err = kv.Get(ctx, placeKey(name))
	}
	if errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, jetstream.ErrInvalidKey) {
		return false, nil
	}
	return err == nil, err
}

// forgetPlace removes the place of a destination, so that it begins with new records.
func forgetPlace(ctx context.Context, js jetstream.JetStream, space toolcall.SpaceID, name string) error {
	kv, err := js.KeyValue(ctx, OutboxBucketName(space))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err == nil {
		err = kv.Purge(ctx, placeKey(name), jetstream.PurgeTTL(time.Minute))
	}
	return err
}

// Destination is a destination of webhooks that NATS stores deliveries for. No settings need
// name it any more.
type Destination struct {
	Name string `json:"destination"`
	// Waiting is how many event records it has not acknowledged.
	Waiting uint64 `json:"waiting"`
	// Served reports whether a process delivers to it, or did within the last two minutes.
	Served bool `json:"served"`
	// PlaceOnly reports whether its consumer was deleted, and only the place is known where it would
	// continue.
	PlaceOnly bool `json:"-"`

	// upTo is the last record up to which it has acknowledged all records.
	upTo uint64
}

// Waiting is what a destination has not received.
type Waiting struct {
	Destination string
	Records     uint64
	Oldest      time.Time // when the first of these records was stored; zero: none waits
}

// ListWaiting returns what waits for each destination. It reads at most two records for each.
func (j *Journal) ListWaiting(ctx context.Context) ([]Waiting, error) {
	all, err := j.store.listDestinations(ctx)
	out := make([]Waiting, 0, len(all))
	for _, d := range all {
		w := Waiting{Destination: d.Name, Records: d.Waiting}
		for _, filter := range outboxFilters(j.space) {
			if d.Waiting == 0 {
				break
			}
			found, _, err := j.store.readPage(ctx, filter, d.upTo, 1)
			if err != nil {
				return nil, jsapi.Error("read destinations", "stream "+j.store.stream, err)
			}
			if len(found) > 0 && (w.Oldest.IsZero() || found[0].time.Before(w.Oldest)) {
				w.Oldest = found[0].time
			}
		}
		out = append(out, w)
	}
	return out, err
}

// outboxFilters are the subjects of the records that destinations get.
func outboxFilters(space toolcall.SpaceID) []string {
	return []string{bus.Subject{Space: space, Kind: bus.KindRecord}.String(), bus.Subject{Space: space, Kind: bus.KindWork}.String()}
}

// outboxConsumer is the name of the consumer of a destination.
func outboxConsumer(destination string) string { return "h_" + destination }

func destinationOf(c *jetstream.ConsumerInfo) Destination {
	// A process whose 64 deliveries all wait for their receivers asks for no more meanwhile.
	last := c.Delivered.Last
	return Destination{
		Name: strings.TrimPrefix(c.Name, outboxConsumer("")), Waiting: c.NumPending + uint64(c.NumAckPending), upTo: c.AckFloor.Stream,
		Served: c.NumWaiting > 0 || last != nil && c.TimeStamp.Sub(*last) < servedLately,
	}
}

// listDestinations returns the destinations by name. A server of a cluster leaves out a consumer
// whose leader does not answer, but lists its name: this is an error.
func (s reader) listDestinations(ctx context.Context) ([]Destination, error) {
	const op = "read destinations"
	st, err := s.lookUpStream(ctx)
	if err != nil {
		return nil, jsapi.Error(op, "stream "+s.stream, err)
	}
	missing, names := map[string]bool{}, st.ConsumerNames(ctx)
	for name := range names.Name() {
		if strings.HasPrefix(name, outboxConsumer("")) {
			missing[name] = true
		}
	}
	if err := names.Err(); err != nil {
		return nil, jsapi.Error(op, "stream "+s.stream, err)
	}
	out, list := []Destination{}, st.ListConsumers(ctx)
	for c := range list.Info() {
		if c.Cluster == nil || c.Cluster.Leader != "" { // without a leader, nothing else is known
			delete(missing, c.Name)
		}
		if c.Config.Metadata[metaKind] == kindOutbox {
			out = append(out, destinationOf(c))
		}
	}
	if err := list.Err(); err != nil {
		return nil, jsapi.Error(op, "stream "+s.stream, err)
	}
	for name := range missing {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: op, What: "the consumer " + errtext.Quote(name) + " of stream " + s.stream + " has no leader that answers", Hint: "try again"}
	}
	slices.SortFunc(out, func(a, b Destination) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b Destination) bool { return a.Name == b.Name }), nil // a page is read again if one was left out
}

// spaceReader reads the journal of a space without opening it.
func spaceReader(nc *nats.Conn, space toolcall.SpaceID) (reader, error) {
	if err := bus.CheckSpace(space); err != nil {
		return reader{}, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return reader{}, jsapi.Error("read destinations", "JetStream of this connection", err)
	}
	return reader{nc: nc, js: js, stream: bus.StreamName(space)}, nil
}

// FindDestination returns a destination of a space. It returns ErrNotFound if NATS stores neither
// deliveries for it nor its place, with the names of those for which it stores deliveries.
func FindDestination(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, name string) (Destination, error) {
	s, err := spaceReader(nc, space)
	if err != nil {
		return Destination{}, err
	}
	all, err := s.listDestinations(ctx)
	if err != nil {
		return Destination{}, err
	}
	var names []string
	for _, d := range all {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	if noted, err := hasPlace(ctx, s.js, space, name); err != nil {
		return Destination{}, jsapi.Error("read destinations", "bucket "+OutboxBucketName(space), err)
	} else if noted {
		return Destination{Name: name, PlaceOnly: true}, nil
	}
	return Destination{}, &message.Error{Code: message.CodeNotFound, Op: opForget, What: "there is no destination " + errtext.Quote(name), Hint: "NATS knows " + cmp.Or(strings.Join(names, ", "), "none")}
}

// CheckUnserved returns ErrState if a process serves the destination.
func (d Destination) CheckUnserved() error {
	if !d.Served {
		return nil
	}
	return &message.Error{Code: message.CodeState, Op: opForget, What: "an engine serves the destination " + errtext.Quote(d.Name) + ", or did so within the last two minutes",
		Hint: "remove it from the webhooks file of each engine of the space, restart the engines, and try again two minutes later"}
}

const opForget = "forget a destination"

// ForgetDestination removes a destination, whose waiting deliveries are then never sent, and
// which holds back no archive any more. It returns ErrState while a process serves the
// destination, and ErrNotFound if there is none.
func ForgetDestination(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, name string) error {
	d, err := FindDestination(ctx, nc, space, name)
	if err != nil {
		return err
	}
	if err := d.CheckUnserved(); err != nil {
		return err
	}
	s, err := spaceReader(nc, space)
	if err != nil {
		return err
	}
	if err = forgetPlace(ctx, s.js, space, name); err != nil {
		return jsapi.Error(opForget, "bucket "+OutboxBucketName(space), err)
	}
	if d.PlaceOnly {
		return nil
	}
	if err = s.js.DeleteConsumer(ctx, s.stream, outboxConsumer(name)); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return jsapi.Error(opForget, "stream "+s.stream, err)
	}
	return nil
}
