package agui_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/internal/codectest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
)

// vector is one row of testdata/ag-ui/events.jsonl. Its verdicts were recorded from published
// packages, as the README next to it describes.
type vector struct {
	ID     string          `json:"id"`
	Event  json.RawMessage `json:"event"`
	Schema struct {
		Valid  bool `json:"valid"`
		Issues []struct {
			Path string `json:"path"`
		} `json:"issues"`
	} `json:"schema"`
	Client struct {
		Action   string          `json:"action"`
		Warnings int             `json:"warnings"`
		Result   json.RawMessage `json:"result"`
	} `json:"client"`
	Pre1 struct {
		Valid bool `json:"valid"`
	} `json:"pre1"`
}

func vectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/ag-ui/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var rows []vector
	for line := range bytes.Lines(data) {
		var v vector
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, v)
	}
	if len(rows) == 0 {
		t.Fatal("no rows")
	}
	return rows
}

// The strict decoder finds the same faults as the schema of 1.0.
func TestVectorsSchema(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			e, err := aguitest.DecodeEvent(v.Event)
			if v.Schema.Valid {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := agui.AppendJSON(nil, e); err != nil {
					t.Errorf("the decoded event cannot be encoded: %v", err)
				}
				return
			}
			var place *strictjson.Error
			if !errors.As(err, &place) || !errors.Is(err, message.ErrInvalid) {
				t.Fatalf("got %T %v, want an invalid error with a place", err, err)
			}
			if want := v.Schema.Issues[0].Path; place.Path != want {
				t.Errorf("fault at %q, the schema finds it at %q: %v", place.Path, want, err)
			}
		})
	}
}

// The tolerant decoder accepts, repairs and refuses the same as the 1.0 client.
func TestVectorsClient(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			var deviations []agui.Deviation
			d := aguitest.Decoder{
				NewID:       func() string { return "<minted>" },
				OnDeviation: func(dev agui.Deviation) { deviations = append(deviations, dev) },
			}
			e, err := d.Event(v.Event)
			if v.Client.Action == "fatal" {
				if err == nil {
					t.Fatal("accepted, but the client fails")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := v.Event
			if v.Client.Action == "changed" {
				want = v.Client.Result
			}
			got, err := agui.AppendJSON(nil, e)
			if err != nil {
				t.Fatal(err)
			}
			codectest.SameJSON(t, got, want)
			if len(deviations) != v.Client.Warnings {
				t.Errorf("%d deviations, the client warns %d times: %v", len(deviations), v.Client.Warnings, deviations)
			}
		})
	}
}
