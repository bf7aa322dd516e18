package toolcall

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Members of a call that are stored in part, or not at all.
const (
	requestMember      = "request"
	votesMember        = "votes"
	attemptMember      = "attempt"
	grantMember        = "grant"
	proposalMember     = "proposal"
	suggestedMember    = "suggested_rules"
	resultMember       = "result"
	resultDigestMember = "result_digest"
	seqMember          = "seq" // position of the record, not part of it
)

// nestedMembers are read after the other members, from which they are derived.
var nestedMembers = []string{requestMember, votesMember, attemptMember, proposalMember, suggestedMember, resultMember, resultDigestMember}

// Members that are written like any other.
var (
	callMembers    = listMembers(reflect.TypeFor[Call](), append(slices.Clone(nestedMembers), seqMember)...)
	attemptMembers = listMembers(reflect.TypeFor[Attempt](), grantMember)
)

// callWriter encodes one event record of a call after the other.
type callWriter struct {
	changeWriter
	record   storedRecord
	by       [3]string // of the record
	path     [128]byte // more than most paths need
	expected Call      // what a reader derives
	attempt  Attempt   // what it derives of the attempt
}

var callWriters = sync.Pool{New: func() any { return &callWriter{changeWriter: changeWriter{append(make([]byte, 0, 1024), '{'), 1}} }}

// returnToPool ends the use of the object that was written, and of the record.
func (w *callWriter) returnToPool() {
	if cap(w.b) <= maxChangeKept {
		*w = callWriter{changeWriter: changeWriter{append(w.b[:0], '{'), 1}}
		callWriters.Put(w)
	}
}

// maxChangeKept is the largest buffer that the pool keeps.
const maxChangeKept = 64 << 10

// writeCall encodes what a reader cannot derive about a call.
func (w *callWriter) writeCall(c *Call, d derivation) error {
	if err := w.putMembers(callMembers, c, d.call); err != nil {
		return err
	}
	if err := w.putRequest(c, d); err != nil {
		return err
	}
	if err := w.putVotes(c, d); err != nil {
		return err
	}
	if err := w.putAttempt(c, d); err != nil {
		return err
	}
	return errors.Join(
		w.putText(proposalMember, c.Proposal, d.proposal(c)),
		putDerived(&w.changeWriter, suggestedMember, c.Suggested, c.Suggested == nil, isSameList(c.Suggested, d.suggested(c))),
		w.putResult(c, d),
		w.putText(resultDigestMember, c.ResultDigest, d.resultDigest(c)))
}

func (w *changeWriter) putText(name, have, want string) (err error) {
	switch have {
	case want:
	case "":
		w.put(name, null)
	default:
		w.name(name)
		w.b, err = strictjson.AppendString(w.b, have)
	}
	return err
}

// putDerived writes a member unless a reader derives the same value.
func putDerived[T any](w *changeWriter, name string, have T, isNone, isDerived bool) error {
	switch {
	case isDerived:
		return nil
	case isNone:
		w.put(name, null)
		return nil
	}
	b, err := strictjson.Marshal(have)
	w.put(name, b)
	return err
}

// readDerived is the reverse of putDerived.
func readDerived[T any](change []byte, to *T, want T) error {
	if change == nil {
		*to = want
		return nil
	}
	var zero T
	*to = zero
	if bytes.Equal(change, null) {
		return nil
	}
	return strictjson.ReadInto(reflect.ValueOf(to).Elem(), change)
}

// wholeResult begins a result that is stored whole.
var wholeResult = []byte(`{"type":`)

// putResult writes a new result without what a reader derives; other results are stored whole.
func (w *changeWriter) putResult(c *Call, d derivation) error {
	want := d.result(c)
	if r := c.Result; want == nil || r == nil || r.Metadata == nil || len(r.Metadata) > 0 || r.FinishedAt == nil || *r.FinishedAt != r.CreatedAt {
		return putDerived(w, resultMember, r, r == nil, isEqual(reflect.ValueOf(r), reflect.ValueOf(d.resultBefore())))
	}
	want.FinishedAt = c.Result.FinishedAt
	return w.putChange(resultMember, c.Result, want, true)
}

func (d derivation) resultBefore() *message.ToolResultBlock {
	if d.base == nil {
		return nil
	}
	return d.base.Result
}

func (d derivation) readResult(c *Call, change []byte) error {
	r := d.result(c)
	if r == nil || change == nil || bytes.Equal(change, null) {
		return readDerived(change, &c.Result, d.resultBefore())
	}
	if bytes.HasPrefix(change, wholeResult) {
		return readDerived(change, &c.Result, nil)
	}
	if _, err := readMembers(change, r); err != nil {
		return err
	}
	if r.FinishedAt != nil {
		return fmt.Errorf("the member %q has what a reader derives", resultMember)
	}
	end := r.CreatedAt
	r.FinishedAt, c.Result = &end, r
	return nil
}

func (w *changeWriter) putRequest(c *Call, d derivation) error {
	if c.Request == nil {
		if d.hasRequest() {
			w.put(requestMember, null)
		}
		return nil
	}
	want := d.request(c)
	if c.Request == want {
		return nil
	}
	return w.putChange(requestMember, c.Request, want, !d.hasRequest())
}

// putChange writes a member whose own members may differ; with always, even if none does.
func (w *changeWriter) putChange(name string, have, want any, always bool) error {
	return w.nest(name, always, func() error { return w.putMembers(membersOf(reflect.TypeOf(have).Elem()), have, want) })
}

// putVotes writes votes that were added to those of the base as {"add":[…]}, and any other
// votes as a list.
func (w *changeWriter) putVotes(c *Call, d derivation) error {
	before, have := d.votes(), c.Votes
	extends := len(have) >= len(before) && (len(before) == 0 || &have[0] == &before[0] || reflect.DeepEqual(have[:len(before)], before))
	switch {
	case have == nil && before != nil:
		w.put(votesMember, null)
		return nil
	case !extends, have != nil && len(have) == 0 && before == nil:
		b, err := strictjson.Marshal(have)
		w.put(votesMember, b)
		return err
	case len(have) == len(before):
		return nil
	}
	want := d.vote(c)
	w.put(votesMember, []byte(`{"add":`))
	for i := range have[len(before):] {
		w.b = append(w.b, "[,"[min(i, 1)])
		if err := w.putObject(func() error {
			return w.putMembers(membersOf(reflect.TypeFor[Vote]()), &have[len(before)+i], &want)
		}); err != nil {
			return err
		}
	}
	w.b = append(w.b, ']', '}')
	return nil
}

func (w *callWriter) putAttempt(c *Call, d derivation) error {
	w.attempt = d.attempt()
	want, have := &w.attempt, &c.Attempt
	return w.nest(attemptMember, false, func() error {
		if err := w.putMembers(attemptMembers, have, want); err != nil {
			return err
		}
		grant := d.grant(c, have)
		switch {
		case have.Grant == grant:
		case have.Grant == nil:
			w.put(grantMember, null)
		case grant == nil:
			return w.putChange(grantMember, have.Grant, &Grant{}, true)
		default:
			return w.putChange(grantMember, have.Grant, grant, grant.V == 0)
		}
		return nil
	})
}

// readCall is the reverse of writeCall.
func readCall(change []byte, d derivation) (*Call, error) {
	c := d.call
	c.Request, c.Votes = nil, d.votes()
	nested, err := readMembers(change, c, nestedMembers...)
	if err != nil {
		return nil, err
	}
	if c.Seq != 0 {
		return nil, fmt.Errorf("the member %q is unknown", seqMember)
	}
	if err := d.readRequest(c, strictjson.Find(nested, requestMember)); err != nil {
		return nil, err
	}
	if err := d.readVotes(c, strictjson.Find(nested, votesMember)); err != nil {
		return nil, err
	}
	if err := d.readAttempt(c, strictjson.Find(nested, attemptMember)); err != nil {
		return nil, err
	}
	err = errors.Join(
		readDerived(strictjson.Find(nested, proposalMember), &c.Proposal, d.proposal(c)),
		readDerived(strictjson.Find(nested, suggestedMember), &c.Suggested, d.suggested(c)),
		d.readResult(c, strictjson.Find(nested, resultMember)))
	if err == nil {
		err = readDerived(strictjson.Find(nested, resultDigestMember), &c.ResultDigest, d.resultDigest(c))
	}
	return c, err
}

func (d derivation) hasRequest() bool { return d.base != nil && d.base.Request != nil }

func (d derivation) readRequest(c *Call, change []byte) error {
	switch {
	case bytes.Equal(change, null):
	case change == nil && d.hasRequest():
		c.Request = d.request(c)
	case change != nil:
		c.Request = d.request(c)
		if d.hasRequest() {
			req := *c.Request
			c.Request = &req
		}
		_, err := readMembers(change, c.Request)
		return err
	}
	return nil
}

func (d derivation) readVotes(c *Call, change []byte) error {
	if change == nil {
		return nil
	}
	if bytes.Equal(change, null) {
		c.Votes = nil
		return nil
	}
	switch strictjson.KindOf(change) {
	case "array":
		c.Votes = nil
		return strictjson.ReadInto(reflect.ValueOf(&c.Votes).Elem(), change)
	case "object":
		var more struct {
			Add []strictjson.Encoded `json:"add"`
		}
		if err := strictjson.ReadInto(reflect.ValueOf(&more).Elem(), change); err != nil {
			return err
		}
		c.Votes = slices.Clip(c.Votes)
		for _, raw := range more.Add {
			v := d.vote(c)
			if _, err := readMembers(raw, &v); err != nil {
				return err
			}
			c.Votes = append(c.Votes, v)
		}
	default:
		return fmt.Errorf("the member %q is neither a list nor an object", votesMember)
	}
	return nil
}

func (d derivation) readAttempt(c *Call, change []byte) error {
	c.Attempt = d.attempt()
	var nested []strictjson.Member
	if change != nil {
		var err error
		if nested, err = readMembers(change, &c.Attempt, grantMember); err != nil {
			return err
		}
	}
	c.Attempt.Grant = d.grant(c, &c.Attempt)
	grant := strictjson.Find(nested, grantMember)
	switch {
	case grant == nil:
	case bytes.Equal(grant, null):
		c.Attempt.Grant = nil
	default:
		var g Grant
		if c.Attempt.Grant != nil {
			g = *c.Attempt.Grant
		}
		c.Attempt.Grant = &g
		_, err := readMembers(grant, &g)
		return err
	}
	return nil
}
