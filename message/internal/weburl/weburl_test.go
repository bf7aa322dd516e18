package weburl_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/askance-dev/askance/message/internal/weburl"
)

// ../../testdata/urls/README.md describes the source of the rows and the deviations.
func TestNormalizeVectors(t *testing.T) {
	in, err := os.Open("../../testdata/urls/urls.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	n := 0
	for lines := bufio.NewScanner(in); lines.Scan(); n++ {
		var row struct {
			Input     string
			Href      *string
			Deviation string
			Ours      *string
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		want := row.Href
		if row.Deviation != "" {
			want = row.Ours
		}
		got, err := weburl.Normalize(row.Input)
		switch {
		case want == nil && err == nil:
			t.Errorf("%q is accepted as %q, want it refused", row.Input, got)
		case want != nil && err != nil:
			t.Errorf("%q: %v, want %q", row.Input, err, *want)
		case want != nil && got != *want:
			t.Errorf("%q = %q, want %q", row.Input, got, *want)
		}
	}
	if n < 500 {
		t.Errorf("only %d rows", n)
	}
}

// A normal form is its own normal form, for any input.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"https://u:p@E.test:8080/a/./b/..?q=é#f", "file:c|/x", "foo:/.//x", "http://0x7f.1/", "http://[::ffff:1.2.3.4]", "data:text/plain, x ", "http:\\\\h\\p"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		once, err := weburl.Normalize(raw)
		if err != nil {
			return
		}
		for i := range len(once) {
			if once[i] < ' ' || once[i] > '~' {
				t.Fatalf("%q keeps byte %#x in %q", raw, once[i], once)
			}
		}
		if twice, err := weburl.Normalize(once); err != nil || twice != once {
			t.Fatalf("%q = %q, again %q, %v", raw, once, twice, err)
		}
	})
}
