package agui

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/askance-dev/askance/message"
	"pgregory.net/rapid"
)

// drawEvent makes any event that can be written.
func drawEvent(t *rapid.T) Event {
	types := slices.Sorted(maps.Keys(makers))
	e := newEvent(rapid.SampledFrom(types).Draw(t, "type"))
	fill(t, reflect.ValueOf(e).Elem())
	switch e := e.(type) {
	case *TextMessageStart:
		e.Role = maybe(t, rapid.SampledFrom(textRoles))
	case *TextMessageChunk:
		e.Role = maybe(t, rapid.SampledFrom(textRoles))
	default:
	}
	return e
}

// drawInput makes any input that can be written.
func drawInput(t *rapid.T) *RunInput {
	in := new(RunInput)
	fill(t, reflect.ValueOf(in).Elem())
	return in
}

var (
	texts   = rapid.SampledFrom([]string{"", "m1", "call-1", "héllo ✓\n\"", "\u2028 \x00", "{}", "null"})
	objects = rapid.SampledFrom([]string{`{}`, `{"a":null}`, `{"n":12345678901234567890,"z":[1.50,"\u0041"]}`, "{\n\"a\" : 1 }"})
	values  = rapid.SampledFrom([]string{`0`, `false`, `""`, `[]`, `[null]`, `{"a":null}`, `-1.5e300`, "[1,\r\n2]"})
	safe    = rapid.Int64Range(0, maxSafe)
)

// fill sets the fields of a struct so that it can be written.
func fill(t *rapid.T, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *Message:
		*x = drawMessage(t)
		return
	case *Part:
		*x = drawPart(t)
		return
	case *Content:
		*x = drawContent(t)
		return
	case *PatchOp:
		*x = drawPatch(t)
		return
	case *Outcome:
		*x = drawOutcome(t)
		return
	case *SubagentOutcome:
		*x = drawSubagentOutcome(t)
		return
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			fillField(t, f.Name, v.Field(i))
		}
	}
}

func fillField(t *rapid.T, name string, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *message.RawJSON:
		*x = drawRaw(t, name)
		return
	case **int64:
		*x = maybe(t, safe)
		return
	case *[]string:
		*x = optional(t, rapid.SliceOfN(texts, 0, 2))
		return
	case **Role:
		*x = maybe(t, rapid.Just(RoleTool))
		return
	case *EncryptedSubtype:
		*x = rapid.SampledFrom(encryptedSubtypes).Draw(t, name)
		return
	case *ResumeStatus:
		*x = rapid.SampledFrom(resumeStatuses).Draw(t, name)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts.Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Struct:
		fill(t, v)
	case reflect.Pointer:
		if rapid.Bool().Draw(t, name+" is there") {
			v.Set(reflect.New(v.Type().Elem()))
			fillField(t, name, v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 2).Draw(t, name), 2))
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	default:
		panic("no way to draw " + v.Type().String())
	}
}

func drawRaw(t *rapid.T, name string) message.RawJSON {
	switch name {
	case "Snapshot", "Event", "Value":
		return message.RawJSON(rapid.OneOf(values, objects, rapid.Just("null")).Draw(t, name))
	case "Content":
		return message.RawJSON(objects.Draw(t, name))
	case "Metadata", "ResponseSchema":
		if rapid.Bool().Draw(t, name+" is there") {
			return message.RawJSON(objects.Draw(t, name))
		}
	default:
		if rapid.Bool().Draw(t, name+" is there") {
			return message.RawJSON(values.Draw(t, name))
		}
	}
	return nil
}

func maybe[T any](t *rapid.T, g *rapid.Generator[T]) *T {
	if !rapid.Bool().Draw(t, "is there") {
		return nil
	}
	v := g.Draw(t, "value")
	return &v
}

func optional[T any](t *rapid.T, g *rapid.Generator[[]T]) []T {
	if p := maybe(t, g); p != nil {
		return *p
	}
	return nil
}

func drawMessage(t *rapid.T) Message {
	m := Message{
		ID: texts.Draw(t, "id"), Role: rapid.SampledFrom(roles).Draw(t, "role"),
		Metadata: drawRaw(t, "Metadata"), SubagentRunID: maybe(t, texts),
	}
	if slices.Contains(textRoles, m.Role) {
		m.Name = maybe(t, texts)
	}
	if m.Role != RoleActivity {
		m.Encrypted = maybe(t, texts)
		m.Content = Text(texts.Draw(t, "content"))
	}
	switch m.Role {
	case RoleActivity:
		m.ActivityType, m.Activity = texts.Draw(t, "kind"), message.RawJSON(objects.Draw(t, "activity"))
	case RoleTool:
		m.ToolCallID, m.Error = texts.Draw(t, "call"), maybe(t, texts)
		*m.Content = drawContent(t)
	case RoleUser:
		*m.Content = drawContent(t)
	case RoleAssistant:
		if rapid.Bool().Draw(t, "silent") {
			m.Content = nil
		}
		fillField(t, "ToolCalls", reflect.ValueOf(&m).Elem().FieldByName("ToolCalls"))
	}
	return m
}

func drawContent(t *rapid.T) Content {
	if rapid.Bool().Draw(t, "string") {
		return Content{Text: texts.Draw(t, "content")}
	}
	return Content{Parts: rapid.SliceOfN(rapid.Custom(drawPart), 0, 2).Draw(t, "parts")}
}

func drawPart(t *rapid.T) Part {
	p := Part{Type: rapid.SampledFrom(partTypes).Draw(t, "kind"), ID: maybe(t, texts), Metadata: drawRaw(t, "any")}
	if p.Type == PartText {
		p.Text = texts.Draw(t, "text")
		return p
	}
	p.Source = &Source{Type: rapid.SampledFrom(sourceTypes).Draw(t, "source"), Value: texts.Draw(t, "value"), MimeType: maybe(t, texts)}
	switch p.Source.Type {
	case SourceData:
		p.Source.MimeType = new("image/png")
	case SourceFile:
		p.Source.Provider = maybe(t, texts)
	}
	return p
}

func drawPatch(t *rapid.T) PatchOp {
	pointers := rapid.SampledFrom([]string{"", "/", "/a/0", "/~0~1/-"})
	p := PatchOp{Op: rapid.SampledFrom(patchOps).Draw(t, "op"), Path: pointers.Draw(t, "path")}
	switch p.Op {
	case PatchMove, PatchCopy:
		p.From = pointers.Draw(t, "from")
	case PatchAdd, PatchReplace, PatchTest:
		p.Value = drawRaw(t, "Value")
	}
	return p
}

func drawOutcome(t *rapid.T) Outcome {
	o := Outcome{Type: rapid.SampledFrom(outcomeTypes).Draw(t, "outcome")}
	switch o.Type {
	case OutcomeSuccess:
		o.PendingToolCallIDs = optional(t, rapid.SliceOfN(texts, 0, 2))
	case OutcomeInterrupt:
		o.Interrupts = make([]Interrupt, rapid.IntRange(1, 2).Draw(t, "interrupts"))
		for i := range o.Interrupts {
			fill(t, reflect.ValueOf(&o.Interrupts[i]).Elem())
		}
	}
	return o
}

func drawSubagentOutcome(t *rapid.T) SubagentOutcome {
	o := SubagentOutcome{Type: rapid.SampledFrom(subagentOutcomes).Draw(t, "outcome")}
	if o.Type == SubagentSuspended {
		o.InterruptIDs = optional(t, rapid.SliceOfN(texts, 0, 2))
	}
	return o
}

// Whatever can be written is read back as the same, by the strict decoder and
// without a deviation, on one line and without a null that was not put there.
func TestEventRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		roundTrip(t, e, func(d *Decoder, data []byte) (Event, error) { return d.Event(data) },
			func(e Event) ([]byte, error) { return AppendJSON(nil, e) })
	})
}

func TestRunInputRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roundTrip(t, drawInput(t), (*Decoder).RunInput,
			func(in *RunInput) ([]byte, error) { return in.AppendJSON(nil) })
	})
}

func roundTrip[T any](t *rapid.T, v T, decode func(*Decoder, []byte) (T, error), encode func(T) ([]byte, error)) {
	once, err := encode(v)
	if err != nil {
		t.Fatalf("%v of %+v", err, v)
	}
	if slices.Contains(once, '\n') || slices.Contains(once, '\r') {
		t.Fatalf("more than one line: %s", once)
	}
	d := Decoder{Strict: true, OnDeviation: func(dev Deviation) { t.Fatalf("%v in %s", dev, once) }}
	back, err := decode(&d, once)
	if err != nil {
		t.Fatalf("%v of %s", err, once)
	}
	twice, err := encode(back)
	if err != nil || string(once) != string(twice) {
		t.Fatalf("not stable: %v\n%s\n%s", err, once, twice)
	}
}
