package toolcall

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

type member struct {
	name  string
	index []int
}

var memberTables sync.Map // []member by reflect.Type

// membersOf lists the JSON members of a struct, in order.
func membersOf(t reflect.Type) []member {
	if have, ok := memberTables.Load(t); ok {
		return have.([]member)
	}
	out := listMembers(t)
	memberTables.Store(t, out)
	return out
}

func listMembers(t reflect.Type, without ...string) (out []member) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" || slices.Contains(without, name) {
			continue
		}
		out = append(out, member{name, f.Index})
	}
	return out
}

// changeWriter writes a JSON object with the members that differ.
type changeWriter struct {
	b     []byte
	first int // where the first member of the object begins
}

func (w *changeWriter) isEmpty() bool  { return len(w.b) == w.first }
func (w *changeWriter) object() []byte { return append(w.b, '}') }

func (w *changeWriter) put(name string, value []byte) {
	w.name(name)
	w.b = append(w.b, value...)
}

func (w *changeWriter) name(name string) {
	if !w.isEmpty() {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

// nest writes a member that is an object, which fill writes. An empty one is left out unless
// always is set.
func (w *changeWriter) nest(name string, always bool, fill func() error) error {
	before := len(w.b)
	w.name(name)
	start := len(w.b)
	err := w.putObject(fill)
	if !always && len(w.b) == start+len("{}") {
		w.b = w.b[:before]
	}
	return err
}

// putObject writes an object, whose members fill writes.
func (w *changeWriter) putObject(fill func() error) error {
	first := w.first
	w.b = append(w.b, '{')
	w.first = len(w.b)
	err := fill()
	w.b, w.first = append(w.b, '}'), first
	return err
}

// putMembers writes the members of have that differ from want, and null for those that have
// lacks. members are those of their type that it compares.
func (w *changeWriter) putMembers(members []member, have, want any) error {
	h, x := reflect.ValueOf(have).Elem(), reflect.ValueOf(want).Elem()
	for i := range members {
		m := &members[i]
		value := h.FieldByIndex(m.index)
		if isEqual(value, x.FieldByIndex(m.index)) {
			continue
		}
		if isZero(value) {
			w.put(m.name, null)
			continue
		}
		w.name(m.name)
		var err error
		if w.b, err = strictjson.Append(w.b, value); err != nil {
			return err
		}
	}
	return nil
}

var null = []byte("null")

// isEqual compares two values of one type in place: reflect.DeepEqual copies them. It may report
// equal values as different, which only costs space: what differs is stored. In a comparable
// struct it compares pointers as such, because journals depend on what is stored.
func isEqual(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Pointer:
		return a.UnsafePointer() == b.UnsafePointer() || !a.IsNil() && !b.IsNil() && isEqual(a.Elem(), b.Elem())
	case reflect.Slice:
		switch {
		case a.IsNil() != b.IsNil(), a.Len() != b.Len():
			return false
		case a.UnsafePointer() == b.UnsafePointer():
			return true
		case a.Type().Elem().Kind() == reflect.Uint8:
			return bytes.Equal(a.Bytes(), b.Bytes())
		}
		for i := range a.Len() {
			if !isEqual(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		if t, ok := reflect.TypeAssert[time.Time](a); ok {
			u, _ := reflect.TypeAssert[time.Time](b)
			return t == u
		}
		if a.Type().Comparable() {
			return a.Equal(b)
		}
		for i := range a.NumField() {
			if !isEqual(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Map, reflect.Interface:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
	return a.Equal(b)
}

// isSame reports whether two records are equal. It may report equal ones as different: what few
// records have must be absent, or the same in memory.
func (r *EventRecord) isSame(o *EventRecord) bool {
	return r.V == o.V && r.ID == o.ID && isSameList(r.Path, o.Path) && r.By == o.By && r.At == o.At && r.Engine == o.Engine && areSame(r.Call, o.Call, isSameCall) && r.Reply == o.Reply &&
		r.Session == o.Session && r.Standing == o.Standing && r.Budget == o.Budget && r.Note == o.Note && isSameJSON(r.End, o.End) && isSameJSON(r.Explanation, o.Explanation) && areSame(r.Prev, o.Prev, isSameValue)
}

func isSameCall(c, o *Call) bool {
	return c.Key == o.Key && c.Runtime == o.Runtime && c.Agent == o.Agent && c.Cwd == o.Cwd && c.Trace == o.Trace && areSame(c.Requester, o.Requester, isSameRequester) && c.Tool == o.Tool && c.Input == o.Input &&
		c.State == o.State && c.InPhase == o.InPhase && c.Summary == o.Summary && isSameList(c.Risk, o.Risk) && c.Cause == o.Cause && c.Order == o.Order && isSameJSON(c.Batch, o.Batch) && c.Behind == o.Behind &&
		areSame(c.Definition, o.Definition, isSameValue) && areSame(c.Parent, o.Parent, isSameParent) && c.Proposal == o.Proposal && isSameList(c.Redact, o.Redact) &&
		areSame(c.Decision, o.Decision, isSameDecision) && areSame(c.Request, o.Request, isSameRequest) && c.Digest == o.Digest && (c.Votes == nil) == (o.Votes == nil) && slices.EqualFunc(c.Votes, o.Votes, isSameVote) &&
		c.Step == o.Step && isSameList(c.Suggested, o.Suggested) && isSameList(c.Remember, o.Remember) && c.StandingApprovals == nil && o.StandingApprovals == nil && c.Placement == o.Placement && isSameAttempt(c.Attempt, o.Attempt) &&
		c.Begun == o.Begun && c.Blocked == o.Blocked && c.BlockedReason == o.BlockedReason && c.RetryAt == o.RetryAt && c.Returned == o.Returned && areSame(c.Result, o.Result, isSameResult) && c.Denial == o.Denial &&
		c.ResultDigest == o.ResultDigest && c.ProposedAt == o.ProposedAt && c.UpdatedAt == o.UpdatedAt && c.Records == o.Records && c.First == o.First && c.Seq == o.Seq
}

func isSameParent(p, o *Parent) bool {
	return p.ParentKey == o.ParentKey && p.Tool == o.Tool && p.Runtime == o.Runtime && p.Agent == o.Agent && p.Depth == o.Depth && isSameList(p.Around, o.Around)
}

func isSameRequester(r, o *Requester) bool { return isSameList(r.Groups, o.Groups) && r.From == o.From }

func isSameDecision(d, o *Decision) bool {
	return d.Behavior == o.Behavior && d.Rule == o.Rule && d.Source == o.Source && d.Reason == o.Reason && d.Message == o.Message && d.Headline == o.Headline && d.Bundle == o.Bundle && d.Denial == o.Denial && isSameList(d.Errors, o.Errors) &&
		d.TimeoutMS == o.TimeoutMS && d.Route == o.Route && isSameList(d.Recheck, o.Recheck) && areSame(d.Budget, o.Budget, isSameValue) && d.Standing == o.Standing && isSameList(d.Besides, o.Besides)
}

func isSameRequest(r, o *ApprovalRequest) bool {
	return r.V == o.V && r.Key == o.Key && r.Tool == o.Tool && r.Input == o.Input && r.Cwd == o.Cwd && areSame(r.Definition, o.Definition, isSameValue) && r.Text == o.Text && r.Rule == o.Rule && r.Source == o.Source && r.Reason == o.Reason &&
		isSameRequirement(&r.Requirement, &o.Requirement) && r.Bundle == o.Bundle && isSameList(r.Hidden, o.Hidden) && r.Salt == o.Salt
}

func isSameRequirement(r, o *Requirement) bool {
	return isSameList(r.Users, o.Users) && r.Deadline == o.Deadline && r.Approvers == nil && o.Approvers == nil && r.Quorum == o.Quorum && r.ExcludeRequester == o.ExcludeRequester && r.Requester == o.Requester && isSameList(r.RequestersAround, o.RequestersAround) &&
		r.ExcludeEditor == o.ExcludeEditor && isSameList(r.Editors, o.Editors) && r.Signed == o.Signed && r.OnExpiry == o.OnExpiry && r.FinalDeadline == o.FinalDeadline && r.Remember == o.Remember
}

func isSameVote(v, o Vote) bool {
	return v.ID == o.ID && v.Kind == o.Kind && v.By == o.By && v.At == o.At && v.Digest == o.Digest && v.Edited == o.Edited && v.Feedback == o.Feedback && isSameList(v.Groups, o.Groups) && v.GroupsFrom == o.GroupsFrom &&
		v.Step == o.Step && v.Made == o.Made && v.Note == o.Note && v.To == o.To && areSame(v.Signature, o.Signature, isSameValue) && isSameList(v.Rules, o.Rules) && v.Remember == o.Remember && v.Void == o.Void
}

func isSameAttempt(a, o Attempt) bool {
	isSame := areSame(a.Grant, o.Grant, isSameGrant)
	a.Grant, o.Grant = nil, nil
	return isSame && a == o
}

func isSameGrant(g, o *Grant) bool {
	return g.V == o.V && g.KeyID == o.KeyID && g.Key == o.Key && g.IdempotencyKey == o.IdempotencyKey && g.Tool == o.Tool && g.Route == o.Route && g.Digest == o.Digest && g.Attempt == o.Attempt && g.Bundle == o.Bundle &&
		isSameList(g.Approvals, o.Approvals) && g.NotBefore == o.NotBefore && g.Expires == o.Expires && g.Nonce == o.Nonce && g.Sig == o.Sig
}

func isSameResult(r, o *message.ToolResultBlock) bool {
	return r.ID == o.ID && r.Name == o.Name && r.Output.Text == o.Output.Text && r.Output.Blocks == nil && o.Output.Blocks == nil && r.State == o.State &&
		reflect.DeepEqual(r.Metadata, o.Metadata) && r.CreatedAt == o.CreatedAt && areSame(r.FinishedAt, o.FinishedAt, isSameValue)
}

// areSame reports whether two pointers are equal, or what they point to is the same.
func areSame[T any](a, b *T, isSame func(a, b *T) bool) bool {
	return a == b || a != nil && b != nil && isSame(a, b)
}

func isSameValue[T comparable](a, b *T) bool { return *a == *b }

func isSameJSON(a, b message.RawJSON) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// isSameList tells an empty list from none.
func isSameList[L ~[]E, E comparable](a, b L) bool {
	return (a == nil) == (b == nil) && slices.Equal(a, b)
}

func isZero(v reflect.Value) bool {
	if t, ok := reflect.TypeAssert[time.Time](v); ok {
		return t.IsZero()
	}
	return v.IsZero()
}

// readMembers sets the members of an object in v, a pointer to a struct. It returns the
// members named in later, which the caller must decode.
func readMembers(object []byte, v any, later ...string) ([]strictjson.Member, error) {
	x := reflect.ValueOf(v).Elem()
	r := memberReader{v: x, known: membersOf(x.Type()), later: later}
	if len(later) > 1 {
		r.rest = make([]strictjson.Member, 0, 4) // more than most records have
	}
	if strictjson.Split(object, func(name, value []byte) bool { return r.read(name, value) }) || r.err != nil {
		return r.rest, r.err
	}
	list, err := strictjson.Members(object)
	if err != nil {
		return nil, err
	}
	r.rest, r.anyOrder = r.rest[:0], true
	for _, m := range list {
		if !r.read([]byte(m.Name), m.Value) {
			return nil, cmp.Or(r.err, fmt.Errorf("the member %q is unknown", m.Name))
		}
	}
	return r.rest, nil
}

// memberReader sets the members of a struct one after the other.
type memberReader struct {
	v        reflect.Value
	known    []member
	later    []string
	rest     []strictjson.Member // the members named in later
	next     int                 // follows the last one that was set
	anyOrder bool                // no member comes twice; otherwise they must be in the order of the struct
	err      error
}

// read returns false for a member that is unknown, out of order or invalid; then it sets err.
func (r *memberReader) read(name, value []byte) bool {
	for i, n := range r.later {
		if n == string(name) {
			inOrder := r.anyOrder || len(r.rest) == 0 || slices.Index(r.later, r.rest[len(r.rest)-1].Name) < i
			r.rest = append(r.rest, strictjson.Member{Name: n, Value: value})
			return inOrder
		}
	}
	if r.anyOrder {
		r.next = 0
	}
	for ; r.next < len(r.known); r.next++ {
		if m := &r.known[r.next]; m.name == string(name) {
			field := r.v.FieldByIndex(m.index)
			field.SetZero()
			if !bytes.Equal(value, null) {
				if err := strictjson.ReadInto(field, value); err != nil {
					r.err = fmt.Errorf("the member %q: %w", m.name, err)
				}
			}
			r.next++
			return r.err == nil
		}
	}
	return false
}
