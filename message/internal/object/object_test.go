package object_test

import (
	"errors"
	"testing"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/object"
)

func TestReader(t *testing.T) {
	r := object.Read([]byte(`{"s":"a","n":null,"i":3,"f":1.5,"b":true,"l":[1,2],"o":{"x":1}}`))
	got := []any{r.Text("s"), r.TextOr("n", "alt"), r.TextPtr("n") == nil, r.IntOr("i", 0), r.IntOr("j", 7), string(r.Raw("o", "object")), string(r.Raw("n", "")), r.Raw("n", "object") == nil}
	want := []any{"a", "alt", true, int64(3), int64(7), `{"x":1}`, "null", true}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: got %v, want %v", i, got[i], want[i])
		}
	}
	n := 0
	if !r.Items("l", func([]byte) error { n++; return nil }) || n != 2 || r.Items("n", nil) || r.Has("n") || !r.There("n") || r.There("zz") {
		t.Errorf("items: %d", n)
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
}

func TestReaderFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		read func(*object.Reader)
		want error
		path string
	}{
		{"missing", func(r *object.Reader) { r.Text("none") }, strictjson.ErrMissingMember, ""},
		{"kind", func(r *object.Reader) { r.Text("i") }, strictjson.ErrType, "/i"},
		{"raw kind", func(r *object.Reader) { r.Raw("i", "object") }, strictjson.ErrType, "/i"},
		{"unknown", func(r *object.Reader) { r.Only("i", "s", "big") }, strictjson.ErrUnknownMember, "/l"},
		{"item", func(r *object.Reader) {
			r.Items("l", func(raw []byte) error { _, err := strictjson.Text(raw); return err })
		}, strictjson.ErrType, "/l/1"},
		{"first fault stays", func(r *object.Reader) { r.IntOr("s", 0); r.Text("none") }, strictjson.ErrType, "/s"},
	} {
		r := object.Read([]byte(`{"i":1,"s":"x","l":["a",2],"big":1e999}`))
		c.read(r)
		var e *strictjson.Error
		if err := r.Err(); !errors.Is(err, c.want) || !errors.As(err, &e) || e.Path != c.path {
			t.Errorf("%s: %v, want %v at %q", c.name, err, c.want, c.path)
		}
	}
	if object.Read([]byte(`[]`)).Err() == nil {
		t.Error("an array is no object")
	}
}

func TestWriter(t *testing.T) {
	w := object.Write([]byte("x"))
	s := "é\""
	w.Text("t", s)
	w.TextIf("none", "")
	w.TextPtr("p", nil)
	w.TextPtr("q", &s)
	w.Int("i", -1)
	w.Bool("b", true)
	w.Raw("r", []byte(` {"a" :1}`))
	w.Object("o", func(w *object.Writer) { w.Int("n", 1) })
	w.Array("l", 2, func(dst []byte, i int) ([]byte, error) { return append(dst, byte('0'+i)), nil })
	got, err := w.End()
	want := `x{"t":"é\"","p":null,"q":"é\"","i":-1,"b":true,"r": {"a" :1},"o":{"n":1},"l":[0,1]}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

func TestWriterFaults(t *testing.T) {
	for name, write := range map[string]func(*object.Writer){
		"not UTF-8": func(w *object.Writer) { w.Text("a", "\xff") },
		"not JSON":  func(w *object.Writer) { w.Raw("a", []byte("{")) },
		"twice":     func(w *object.Writer) { w.Int("a", 1); w.Int("a", 2) },
		"item": func(w *object.Writer) {
			w.Array("a", 1, func(dst []byte, _ int) ([]byte, error) { return object.Raw(dst, []byte("x")) })
		},
	} {
		w := object.Write(nil)
		write(w)
		w.Text("after", "x")
		if _, err := w.End(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
