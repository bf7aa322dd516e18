package agui_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
	"pgregory.net/rapid"
)

// drawEvent draws any event that can be encoded.
func drawEvent(t *rapid.T) agui.Event {
	e := aguitest.NewEvent(agui.TypeOf(rapid.SampledFrom(agui.Events).Draw(t, "type")))
	fill(t, reflect.ValueOf(e).Elem())
	switch e := e.(type) {
	case *agui.TextMessageStart:
		e.Role = maybe(t, rapid.SampledFrom(agui.TextRoles))
	case *agui.TextMessageChunk:
		e.Role = maybe(t, rapid.SampledFrom(agui.TextRoles))
	default:
	}
	return e
}

// drawInput draws any input that can be encoded.
func drawInput(t *rapid.T) *agui.RunInput {
	in := new(agui.RunInput)
	fill(t, reflect.ValueOf(in).Elem())
	return in
}

var (
	texts   = rapid.SampledFrom([]string{"", "m1", "call-1", "héllo ✓\n\"", "\u2028 \x00", "{}", "null"})
	objects = rapid.SampledFrom([]string{`{}`, `{"a":null}`, `{"n":12345678901234567890,"z":[1.50,"\u0041"]}`, "{\n\"a\" : 1 }"})
	values  = rapid.SampledFrom([]string{`0`, `false`, `""`, `[]`, `[null]`, `{"a":null}`, `-1.5e300`, "[1,\r\n2]"})
	safe    = rapid.Int64Range(0, agui.MaxSafe)
)

// fill sets the fields of a struct so that it can be encoded.
func fill(t *rapid.T, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *agui.Message:
		*x = drawMessage(t)
		return
	case *agui.Part:
		*x = drawPart(t)
		return
	case *agui.Content:
		*x = drawContent(t)
		return
	case *agui.PatchOp:
		*x = drawPatch(t)
		return
	case *agui.Outcome:
		*x = drawOutcome(t)
		return
	case *agui.SubagentOutcome:
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
	case **agui.Role:
		*x = maybe(t, rapid.Just(agui.RoleTool))
		return
	case *agui.EncryptedSubtype:
		*x = rapid.SampledFrom(agui.EncryptedSubtypes).Draw(t, name)
		return
	case *agui.ResumeStatus:
		*x = rapid.SampledFrom(agui.ResumeStatuses).Draw(t, name)
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

func drawMessage(t *rapid.T) agui.Message {
	m := agui.Message{
		ID: texts.Draw(t, "id"), Role: rapid.SampledFrom(agui.Roles).Draw(t, "role"),
		Metadata: drawRaw(t, "Metadata"), SubagentRunID: maybe(t, texts),
	}
	if slices.Contains(agui.TextRoles, m.Role) {
		m.Name = maybe(t, texts)
	}
	if m.Role != agui.RoleActivity {
		m.Encrypted = maybe(t, texts)
		m.Content = agui.Text(texts.Draw(t, "content"))
	}
	switch m.Role {
	case agui.RoleActivity:
		m.ActivityType, m.Activity = texts.Draw(t, "kind"), message.RawJSON(objects.Draw(t, "activity"))
	case agui.RoleTool:
		m.ToolCallID, m.Error = texts.Draw(t, "call"), maybe(t, texts)
		*m.Content = drawContent(t)
	case agui.RoleUser:
		*m.Content = drawContent(t)
	case agui.RoleAssistant:
		if rapid.Bool().Draw(t, "silent") {
			m.Content = nil
		}
		fillField(t, "ToolCalls", reflect.ValueOf(&m).Elem().FieldByName("ToolCalls"))
	}
	return m
}

func drawContent(t *rapid.T) agui.Content {
	if rapid.Bool().Draw(t, "string") {
		return agui.Content{Text: texts.Draw(t, "content")}
	}
	return agui.Content{Parts: rapid.SliceOfN(rapid.Custom(drawPart), 0, 2).Draw(t, "parts")}
}

func drawPart(t *rapid.T) agui.Part {
	p := agui.Part{Type: rapid.SampledFrom(agui.PartTypes).Draw(t, "kind"), ID: maybe(t, texts), Metadata: drawRaw(t, "any")}
	if p.Type == agui.PartText {
		p.Text = texts.Draw(t, "text")
		return p
	}
	p.Source = &agui.Source{Type: rapid.SampledFrom(agui.SourceTypes).Draw(t, "source"), Value: texts.Draw(t, "value"), MimeType: maybe(t, texts)}
	switch p.Source.Type {
	case agui.SourceData:
		p.Source.MimeType = new("image/png")
	case agui.SourceFile:
		p.Source.Provider = maybe(t, texts)
	}
	return p
}

func drawPatch(t *rapid.T) agui.PatchOp {
	pointers := rapid.SampledFrom([]string{"", "/", "/a/0", "/~0~1/-"})
	p := agui.PatchOp{Op: rapid.SampledFrom(agui.PatchOps).Draw(t, "op"), Path: pointers.Draw(t, "path")}
	switch p.Op {
	case agui.PatchMove, agui.PatchCopy:
		p.From = pointers.Draw(t, "from")
	case agui.PatchAdd, agui.PatchReplace, agui.PatchTest:
		p.Value = drawRaw(t, "Value")
	}
	return p
}

func drawOutcome(t *rapid.T) agui.Outcome {
	o := agui.Outcome{Type: rapid.SampledFrom(agui.OutcomeTypes).Draw(t, "outcome")}
	switch o.Type {
	case agui.OutcomeSuccess:
		o.PendingToolCallIDs = optional(t, rapid.SliceOfN(texts, 0, 2))
	case agui.OutcomeInterrupt:
		o.Interrupts = make([]agui.Interrupt, rapid.IntRange(1, 2).Draw(t, "interrupts"))
		for i := range o.Interrupts {
			fill(t, reflect.ValueOf(&o.Interrupts[i]).Elem())
		}
	}
	return o
}

func drawSubagentOutcome(t *rapid.T) agui.SubagentOutcome {
	o := agui.SubagentOutcome{Type: rapid.SampledFrom(agui.SubagentOutcomes).Draw(t, "outcome")}
	if o.Type == agui.SubagentSuspended {
		o.InterruptIDs = optional(t, rapid.SliceOfN(texts, 0, 2))
	}
	return o
}

// Everything that can be encoded decodes to the same value, with the strict decoder, without a
// deviation, and from one line.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t)
		roundTrip(t, e, aguitest.NewEvent(agui.TypeOf(e)))
	})
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, drawInput(t), new(agui.RunInput)) })
}

// roundTrip decodes the encoded v into back, which is empty.
func roundTrip(t *rapid.T, v, back agui.Object) {
	once, err := agui.AppendJSON(nil, v)
	if err != nil {
		t.Fatalf("%v of %+v", err, v)
	}
	if slices.Contains(once, '\n') || slices.Contains(once, '\r') {
		t.Fatalf("more than one line: %s", once)
	}
	d := agui.Decoder{Strict: true, OnDeviation: func(dev agui.Deviation) { t.Fatalf("%v in %s", dev, once) }}
	if err := d.Decode(once, back); err != nil {
		t.Fatalf("%v of %s", err, once)
	}
	twice, err := agui.AppendJSON(nil, back)
	if err != nil || string(once) != string(twice) {
		t.Fatalf("not stable: %v\n%s\n%s", err, once, twice)
	}
}
