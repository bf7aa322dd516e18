package toolcall

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// StoredVersion is the version of the compact form in which journals store the event
// records of calls. Records of [RecordVersion], which contain the whole call, stay readable.
const StoredVersion = 3

// MaxBases is how many other records a reader needs at most to read a record.
const MaxBases = 3

// storedLimit limits the size of a stored record that is decoded.
var storedLimit = strictjson.MaxBytes(64 << 20)

// RecordBase is a stored event record of a call on which a later one builds. It is read
// only, so goroutines can share it.
type RecordBase struct {
	Seq  uint64
	Hash string // of the record as it was stored, as in a Link
	// Record contains the whole call. Nothing else may change that call.
	Record *EventRecord
	// Depth is how many other records a reader needs to read this one, and Whole the one of
	// them that needs none, or nil if that is this one.
	Depth int
	Whole *RecordBase
}

// NewRecordBase makes a base of a record. below is what the record itself builds on, or nil
// for a record with the whole call. It copies what others may change.
func NewRecordBase(seq uint64, hash string, rec *EventRecord, below *RecordBase) *RecordBase {
	kept := *rec
	kept.Call = rec.Call.Clone()
	b := newBase(&kept, below)
	b.Seq, b.Hash = seq, hash
	return b
}

// newBase makes a base of a record that belongs to it, and that is not stored yet.
func newBase(rec *EventRecord, below *RecordBase) *RecordBase {
	rec.Explanation, rec.Call.Seq = nil, 0
	b := &RecordBase{Record: rec}
	if below != nil {
		b.Depth = below.Depth + 1
		// After an edit, later records build on this one: they repeat its input. Of redacted inputs no
		// one can tell, as the marks of hidden values change when the call is asked about.
		if rec.Call.Input == below.Record.Call.Input || !rec.took(CauseEdit) {
			b.Whole = below.whole()
		}
	}
	return b
}

// Redacted returns the base for people who may not see what rules redact. b may be nil.
func (b *RecordBase) Redacted() *RecordBase {
	if b == nil || !b.Record.Call.Hides() {
		return b
	}
	shown := *b
	shown.Record = b.Record.Redacted()
	return &shown
}

func (b *RecordBase) whole() *RecordBase {
	if b.Whole == nil {
		return b
	}
	return b.Whole
}

// BaseFor returns the base on which rec should build after the record prev of its call:
// that record, or the whole one if a reader would need too many others. It returns nil if rec
// is to be stored whole, because it begins the call or has the input of an edit before it.
func BaseFor(rec *EventRecord, prev *RecordBase) *RecordBase {
	if prev == nil || rec.Call == nil {
		return nil
	}
	if prev.Depth >= MaxBases {
		if prev = prev.whole(); prev.Depth >= MaxBases {
			return nil
		}
	}
	if c := prev.Record.Call; c.Key != rec.Call.Key || c.Input != rec.Call.Input && !(rec.took(CauseEdit) && rec.took(CauseAllow)) || c.Hides() && !rec.Call.Hides() {
		return nil
	}
	return prev
}

// storedRecord is the compact form. Call contains the members of the whole call, Change only
// those that differ from what a reader derives from the base.
type storedRecord struct {
	V           int                `json:"v"`
	ID          string             `json:"id"`
	Base        *Link              `json:"base,omitzero"` // absent if it is the record before, Prev
	Path        strictjson.Encoded `json:"path,omitzero"`
	By          []string           `json:"by"` // role, name, and how the name was established
	At          time.Time          `json:"at"`
	Engine      *string            `json:"engine,omitzero"` // absent if it is the base's
	Call        strictjson.Encoded `json:"call,omitzero"`
	Change      strictjson.Encoded `json:"change,omitzero"`
	Hides       []string           `json:"hides,omitzero"` // paths that rules hide of the call
	Note        *Note              `json:"note,omitzero"`
	Explanation message.RawJSON    `json:"explanation,omitzero"`
	Prev        *Link              `json:"prev,omitzero"`
}

// Stored is a stored event record that is decoded but not yet expanded.
type Stored struct {
	compact storedRecord
	whole   *EventRecord // set for a record that is not compact
}

var storedPrefix = fmt.Appendf(nil, `{"v":%d,`, StoredVersion)

// DecodeStored decodes a stored event record of any version that this program reads. Only
// [Stored.Expand] finds errors in the path and the call, and body must not change until then.
func DecodeStored(body []byte) (*Stored, error) {
	var s Stored
	v := StoredVersion
	if !bytes.HasPrefix(body, storedPrefix) { // otherwise as this program writes it
		var head struct {
			V int `json:"v"`
		}
		if err := strictjson.UnmarshalOpen(body, &head, storedLimit); err != nil {
			return nil, err
		}
		v = head.V
	}
	switch v {
	case RecordVersion:
		s.whole = &EventRecord{}
		return &s, strictjson.Unmarshal(body, s.whole, storedLimit)
	case StoredVersion:
		err := strictjson.Unmarshal(body, &s.compact, storedLimit)
		if err == nil {
			err = s.compact.check()
		}
		return &s, err
	}
	return nil, fmt.Errorf("it has event record version %d, this program reads versions %d and %d", v, RecordVersion, StoredVersion)
}

// check checks that the members of the compact form are consistent.
func (r *storedRecord) check() error {
	switch {
	case len(r.By) != 3:
		return errors.New("its member by does not have three strings")
	case (r.Call == nil) == (r.Change == nil):
		return errors.New("it does not have exactly one of call and change")
	case r.Call != nil && (r.Base != nil || r.Engine == nil):
		return errors.New("it has the whole call, but also a base or no engine")
	case r.Change != nil && (r.Prev == nil || r.Prev.Seq == 0):
		return errors.New("it changes a call but follows no record")
	case r.Path != nil && strictjson.KindOf(r.Path) != "array" && !bytes.Equal(r.Path, null):
		return errors.New("its path is not a list")
	case r.Base != nil && (r.Base.Seq == 0 || r.Base.Seq >= r.Prev.Seq):
		return errors.New("its base does not come before the record that it follows")
	}
	return nil
}

// BaseSeq is the sequence of the record on which it builds, or 0 if it needs none.
func (s *Stored) BaseSeq() uint64 {
	switch {
	case s.whole != nil || s.compact.Change == nil:
		return 0
	case s.compact.Base != nil:
		return s.compact.Base.Seq
	}
	return s.compact.Prev.Seq
}

// Prev is the record before, or nil.
func (s *Stored) Prev() *Link {
	if s.whole != nil {
		return s.whole.Prev
	}
	return s.compact.Prev
}

// ID is the id of a compact record.
func (s *Stored) ID() string { return s.compact.ID }

// Hides reports whether rules hide arguments of the call that the record changes.
func (s *Stored) Hides() bool {
	if s.whole != nil {
		return s.whole.Call != nil && s.whole.Call.Hides()
	}
	return len(s.compact.Hides) > 0
}

// IsCompact reports whether it is a record of [StoredVersion].
func (s *Stored) IsCompact() bool { return s.whole == nil }

// Expand returns the event record as it was written. base is the record at BaseSeq, or nil
// if BaseSeq is 0. A base other than the writer's is an error.
func (s *Stored) Expand(base *RecordBase) (*EventRecord, error) {
	if s.whole != nil {
		return s.whole, nil
	}
	r := &s.compact
	rec := &EventRecord{V: RecordVersion, ID: r.ID, By: Principal{Role: Role(r.By[0]), Name: r.By[1], Auth: r.By[2]}, At: r.At, Note: r.Note, Explanation: r.Explanation, Prev: r.Prev}
	change := r.Call
	if r.Change != nil {
		if err := r.checkBase(base); err != nil {
			return nil, err
		}
		change, rec.Engine = r.Change, base.Record.Engine
	} else {
		base = nil
	}
	if r.Engine != nil {
		rec.Engine = *r.Engine
	}
	if err := rec.readPath(r.Path, base); err != nil {
		return nil, err
	}
	call, err := readCall(change, derive(rec, base, new(Call)))
	if err != nil {
		return nil, err
	}
	rec.Call = call
	if hidden := call.HiddenPaths(); !slices.Equal(hidden, r.Hides) {
		return nil, errors.New("its hidden paths differ from its call's")
	}
	if base != nil && call.Key != base.Record.Call.Key {
		return nil, errors.New("it changes the key of its call")
	}
	return rec, nil
}

func (r *storedRecord) checkBase(base *RecordBase) error {
	want := cmp.Or(r.Base, r.Prev)
	switch {
	case base == nil || base.Record.Call == nil:
		return errors.New("its base is missing")
	case base.Depth >= MaxBases:
		return fmt.Errorf("it needs more than %d other records", MaxBases)
	case base.Seq != want.Seq || base.Hash != want.Hash:
		return fmt.Errorf("its base is not the record at %d", base.Seq)
	}
	return nil
}

// readPath decodes the steps. Each begins in the state in which the previous one ended.
func (r *EventRecord) readPath(path strictjson.Encoded, base *RecordBase) error {
	if path == nil || bytes.Equal(path, null) {
		return nil
	}
	if r.readSteps(path, stateOf(base)) {
		return nil
	}
	var other []any // valid JSON that this program would write in another way
	if err := strictjson.Unmarshal(path, &other); err != nil {
		return err
	}
	if path, err := strictjson.Marshal(other); err != nil || !r.readSteps(path, stateOf(base)) {
		return errors.New("a step of its path is not a cause and a state")
	}
	return nil
}

// readSteps returns false for a path that this program would not write.
func (r *EventRecord) readSteps(path []byte, state message.ToolCallState) bool {
	r.Path = make([]Step, 0, min(bytes.Count(path, []byte("[")), 4))
	return strictjson.SplitList(path, func(raw []byte) bool {
		if strictjson.KindOf(raw) == "object" {
			whole := Step{From: state, To: state}
			err := strictjson.Unmarshal(raw, &whole)
			r.Path, state = append(r.Path, whole), whole.To
			return err == nil
		}
		n, to := 0, state
		ok := strictjson.SplitList(raw, func(value []byte) (ok bool) {
			text, known := pathTexts[string(value)]
			if !known {
				var err error
				if text, err = strictjson.Text(value); err != nil {
					return false
				}
			}
			if n++; n == 1 {
				r.Path = append(r.Path, Step{Cause: text, From: state, To: state})
			} else {
				to = message.ToolCallState(text)
				r.Path[len(r.Path)-1].To = to
			}
			return n <= 2
		})
		state = to
		return ok && n > 0
	})
}

// pathTexts has the texts of paths by their JSON, so that each is in memory once.
var pathTexts = func() map[string]string {
	out := map[string]string{}
	for _, t := range Table() {
		for _, text := range []string{string(t.Cause), string(t.To)} {
			out[`"`+text+`"`] = text
		}
	}
	return out
}()

// writePath writes the path to b, which is empty.
func (r *EventRecord) writePath(b []byte, base *RecordBase) (_ strictjson.Encoded, err error) {
	if len(r.Path) == 0 {
		return nil, nil
	}
	state := stateOf(base)
	for _, step := range r.Path {
		b = append(b, ',')
		switch {
		case step.From != state:
			b, err = strictjson.Append(b, reflect.ValueOf(step))
		case step.To == state:
			b, err = appendStep(b, step.Cause)
		default:
			b, err = appendStep(b, step.Cause, string(step.To))
		}
		if err != nil {
			return nil, err
		}
		state = step.To
	}
	b[0] = '['
	return append(b, ']'), nil
}

// appendStep appends a short step: its cause and perhaps its state.
func appendStep(b []byte, texts ...string) (_ []byte, err error) {
	for i, text := range texts {
		b = append(b, "[,"[min(i, 1)])
		if b, err = strictjson.AppendString(b, text); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

func stateOf(base *RecordBase) message.ToolCallState {
	if base == nil {
		return none
	}
	return base.Record.Call.State
}

// EncodeStored encodes an event record as journals store it. base is the result of
// [BaseFor]. Records of entities other than calls have only one form.
func EncodeStored(rec *EventRecord, base *RecordBase) ([]byte, error) {
	if rec.Call == nil || rec.V != RecordVersion || rec.Reply != nil || rec.Session != nil || rec.Standing != nil || rec.Budget != nil || rec.End != nil {
		return strictjson.Marshal(rec)
	}
	w := callWriters.Get().(*callWriter)
	defer w.returnToPool()
	w.by = [3]string{string(rec.By.Role), rec.By.Name, rec.By.Auth}
	w.record = storedRecord{V: StoredVersion, ID: rec.ID, By: w.by[:], At: rec.At, Engine: &rec.Engine, Note: rec.Note, Explanation: rec.Explanation, Prev: rec.Prev, Hides: rec.Call.HiddenPaths()}
	r := &w.record
	if base != nil {
		if rec.Prev == nil || rec.Prev.Seq == 0 || rec.Prev.Seq < base.Seq {
			base = nil
		} else if base.Seq != rec.Prev.Seq || base.Hash != rec.Prev.Hash {
			r.Base = &Link{Seq: base.Seq, Hash: base.Hash}
		}
	}
	if r.Base != nil && r.Base.Seq >= rec.Prev.Seq {
		base, r.Base = nil, nil
	}
	if base != nil && rec.Engine == base.Record.Engine {
		r.Engine = nil
	}
	var err error
	if r.Path, err = rec.writePath(w.path[:0], base); err != nil {
		return nil, err
	}
	if err := w.writeCall(rec.Call, derive(rec, base, &w.expected)); err != nil {
		return nil, err
	}
	if base != nil {
		r.Change = w.object()
	} else {
		r.Call = w.object()
	}
	return strictjson.Marshal(r)
}

// HiddenPaths returns the paths that rules hide in the call, sorted, or nil.
func (c *Call) HiddenPaths() []string {
	paths := slices.Clone(c.hidden())
	if len(paths) == 0 {
		return nil
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// errReadsOtherwise indicates a defect of this program, not of the record.
var errReadsOtherwise = errors.New("the stored form reads as another event record")

// EncodeAndRead encodes an event record like [EncodeStored], and returns the base for the next
// record of its call, if it has one: the caller sets Seq and Hash once rec is stored. The base
// has what readers will get, because rec may change. After an error nothing may be written.
//
// Invariant: what readers get has the same JSON form as rec, except for the sequence of its call.
func EncodeAndRead(rec *EventRecord, base *RecordBase) (body []byte, next *RecordBase, err error) {
	var read *EventRecord
	if body, err = EncodeStored(rec, base); err == nil {
		read, err = readBack(body, rec, base)
	}
	switch {
	case errors.Is(err, errReadsOtherwise):
		return nil, nil, &message.Error{Code: message.CodeInternal, Op: "append", What: "nothing was written: the event record would be read differently", Hint: "report this defect of askance; restart the engine", Err: err}
	case err != nil:
		return nil, nil, &message.Error{Code: message.CodeInvalid, Op: "append", What: "the event record has no JSON form that can be read back", Hint: "use valid UTF-8, finite numbers and at most 64 levels", Err: err}
	}
	if read.Call != nil {
		next = newBase(read, base)
	}
	return body, next, nil
}

func readBack(body []byte, rec *EventRecord, base *RecordBase) (*EventRecord, error) {
	s, err := DecodeStored(body)
	if err != nil {
		return nil, err
	}
	read, err := s.Expand(base)
	if err != nil {
		return nil, errors.Join(errReadsOtherwise, err)
	}
	if rec.Call != nil && read.Call != nil {
		if read.Call.Seq != 0 { // only the journal knows it
			return nil, errReadsOtherwise
		}
		read.Call.Seq = rec.Call.Seq
		defer func() { read.Call.Seq = 0 }()
	}
	if read.isSame(rec) {
		return read, nil
	}
	have, err := strictjson.Marshal(read)
	if err != nil {
		return nil, err
	}
	want, err := strictjson.Marshal(rec)
	if err == nil && !bytes.Equal(have, want) {
		err = errReadsOtherwise
	}
	return read, err
}
