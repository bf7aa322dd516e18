package toolcall

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// A codec defect that would store a different record is detected for each member of the record,
// its call and their parts.
func TestReadBackComparesEveryMember(t *testing.T) {
	end := "2026-03-01T12:00:00"
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first := &EventRecord{V: RecordVersion, ID: "a", At: at, Engine: "e", Prev: &Link{}, Call: &Call{Key: Key{Space: "x", Session: "s", Reply: "r", Call: "c"}, Records: 1}}
	base := NewRecordBase(10, "sha256:1", first, nil)
	makeRecord := func() *EventRecord {
		return &EventRecord{
			V: RecordVersion, ID: "b", At: at, Engine: "e", Prev: &Link{Seq: 10, Hash: "sha256:1"}, Path: []Step{{Cause: "result"}}, Note: &Note{What: "x"}, Explanation: message.RawJSON(`{}`),
			Call: &Call{
				Key: first.Call.Key, First: 10, Records: 2, Attempt: Attempt{Number: 1, Grant: &Grant{V: 1}}, Votes: []Vote{{Kind: ResponseApprove}},
				Decision: &Decision{}, Request: &ApprovalRequest{V: 1}, Denial: &Denial{}, Result: &message.ToolResultBlock{CreatedAt: end, FinishedAt: &end, Metadata: map[string]any{}},
			},
		}
	}
	if _, _, err := EncodeAndRead(makeRecord(), base); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, part := range []struct {
		name string
		of   func(*EventRecord) any
	}{
		{"record", func(rec *EventRecord) any { return rec }},
		{"call", func(rec *EventRecord) any { return rec.Call }},
		{"decision", func(rec *EventRecord) any { return rec.Call.Decision }},
		{"request", func(rec *EventRecord) any { return rec.Call.Request }},
		{"vote", func(rec *EventRecord) any { return &rec.Call.Votes[0] }},
		{"attempt", func(rec *EventRecord) any { return &rec.Call.Attempt }},
		{"grant", func(rec *EventRecord) any { return rec.Call.Attempt.Grant }},
		{"denial", func(rec *EventRecord) any { return rec.Call.Denial }},
		{"result", func(rec *EventRecord) any { return rec.Call.Result }},
		{"note", func(rec *EventRecord) any { return rec.Note }},
	} {
		for _, m := range membersOf(reflect.TypeOf(part.of(makeRecord())).Elem()) {
			other := makeRecord()
			if !changeMember(reflect.ValueOf(part.of(other)).Elem().FieldByIndex(m.index)) || other.Key() != first.Key() || other.V != RecordVersion || m.name == seqMember {
				continue
			}
			body, err := EncodeStored(other, base)
			if err != nil {
				t.Fatalf("%s.%s: %v", part.name, m.name, err)
			}
			if _, err := readBack(body, makeRecord(), base); err == nil {
				t.Errorf("a record with a different %s.%s was accepted: %s", part.name, m.name, body)
			}
			checked++
		}
	}
	if checked < 140 {
		t.Errorf("only %d members were changed", checked)
	}
}

// Two records are the same only if every part of them is.
func TestSameRecords(t *testing.T) {
	makeRecord := func() *EventRecord {
		end, signature := "x", &ApproverSignature{}
		return &EventRecord{Path: []Step{{}}, Prev: &Link{}, Explanation: message.RawJSON(`{}`), Call: &Call{
			Requester: &Requester{Groups: []string{"x"}}, Definition: &DefinitionRef{}, Parent: &Parent{}, Decision: &Decision{Budget: &BudgetUse{}},
			Request: &ApprovalRequest{Definition: &DefinitionRef{}, Requirement: Requirement{Users: []string{}}}, Votes: []Vote{{Signature: signature}},
			Suggested: []message.PermissionRule{{}}, Attempt: Attempt{Grant: &Grant{Approvals: []Approval{{}}}},
			Result: &message.ToolResultBlock{Metadata: map[string]any{}, FinishedAt: &end},
		}}
	}
	a, b := makeRecord(), makeRecord()
	if !a.isSame(b) {
		t.Fatal("equal records differ")
	}
	checked := 0
	check := func(path string, v reflect.Value, change func()) {
		old := reflect.ValueOf(v.Interface())
		if change(); a.isSame(b) || b.isSame(a) {
			t.Errorf("records with different %s are the same", path)
		}
		v.Set(old)
		checked++
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				break
			}
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		case reflect.Pointer:
			if !v.IsNil() {
				walk(path, v.Elem())
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() != reflect.Uint8 && v.Len() > 0 {
				walk(path, v.Index(0))
			}
			if v.IsNil() {
				check(path+" (empty)", v, func() { v.Set(reflect.MakeSlice(v.Type(), 0, 0)) })
				check(path+" (one)", v, func() { v.Set(reflect.MakeSlice(v.Type(), 1, 1)) })
				return
			}
		}
		check(path, v, func() { changeMember(v) })
	}
	walk("record", reflect.ValueOf(a).Elem())
	if !a.isSame(b) || checked < 180 {
		t.Errorf("%d parts were changed", checked)
	}
}

// The digest of a proposal is that of the RFC 8785 form, on which records depend.
func TestProposalDigestIsCanonical(t *testing.T) {
	for _, parts := range [][]string{{"", ""}, {"bash", `{"a":"b\\n"}`}, {"é\u2028", "\x00\x1f\x7f😀/<"}, {"t", strings.Repeat("\"x", 1000)}, {"t", "{}", "cwd /a", `"`}} {
		canonical, err := jcs.Marshal(parts)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := ProposalDigest(parts[0], parts[1], parts[2:]...), message.Digest(canonical); got != want {
			t.Errorf("%q: %s, want %s", parts, got, want)
		}
	}
}

// The sequence of a call is never stored, also in a record that has no compact form.
func TestReadBackRefusesASequence(t *testing.T) {
	rec := &EventRecord{V: RecordVersion, Call: &Call{Seq: 5}, Reply: &ReplyState{}}
	if body, _, err := EncodeAndRead(rec, nil); err == nil {
		t.Errorf("it became %s", body)
	}
	rec.Call.Seq = 0
	if _, _, err := EncodeAndRead(rec, nil); err != nil {
		t.Errorf("without a sequence: %v", err)
	}
}

// changeMember sets a member to another value of its type.
func changeMember(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "z")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		} else {
			v.SetZero()
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(`{"k":1}`))
		} else if v.Len() > 0 || v.Type().Elem().Kind() == reflect.Interface {
			v.SetZero()
		} else {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
	case reflect.Struct:
		if t, ok := reflect.TypeAssert[time.Time](v); ok {
			v.Set(reflect.ValueOf(t.Add(time.Hour)))
			return true
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && changeMember(v.Field(i)) {
				return true
			}
		}
		return false
	default:
		return false
	}
	return true
}

// Results that are text are digested in a quicker way, with the same outcome.
func TestDigestResultOfText(t *testing.T) {
	for _, text := range []string{"", "done", "a\"\\\n\x00\x7f<>&\u2028é😀"} {
		quick := &message.ToolResultBlock{Output: message.Content{Text: text}, State: "success"}
		_, body, err := DigestResult(quick)
		if err != nil {
			t.Fatal(err)
		}
		want, err := strictjson.Marshal(struct {
			Output   message.Content `json:"output"`
			State    string          `json:"state"`
			Metadata map[string]any  `json:"metadata"`
		}{quick.Output, "success", nil})
		if err != nil || string(body) != string(want) {
			t.Errorf("%s, want %s (%v)", body, want, err)
		}
	}
	if _, _, err := DigestResult(&message.ToolResultBlock{Output: message.Content{Text: "\xff"}}); err == nil {
		t.Error("text that is not UTF-8 has a digest")
	}
}
