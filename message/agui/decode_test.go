package agui_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
)

// read calls decode with a handler of deviations and returns the reports as "kind path".
func read[T any](decode func(report func(agui.Deviation)) (T, error)) (v T, seen []string, err error) {
	v, err = decode(func(dev agui.Deviation) { seen = append(seen, fmt.Sprintf("%s %s", dev.Kind, dev.Path)) })
	return v, seen, err
}

// Input of peers before 1.0 and of newer ones is repaired and reported. The strict decoder
// refuses all of it except unknown members.
func TestDecoderRepairs(t *testing.T) {
	tests := []struct {
		name, in, want string
		seen           []string
		strict         bool // the strict decoder also accepts it
	}{
		{"unknown member", `{"type":"STEP_STARTED","stepName":"s","more":1}`, `{"type":"STEP_STARTED","stepName":"s"}`, []string{"unknown_member /more"}, true},
		{"member of Object.prototype", `{"type":"STEP_STARTED","stepName":"s","toString":1}`, `{"type":"STEP_STARTED","stepName":"s"}`, []string{"unknown_member /toString"}, true},
		{"deep unknown member", `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"n","arguments":"","a/b":1}}]}]}`, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[{"id":"c","type":"function","function":{"name":"n","arguments":""}}]}]}`, []string{"unknown_member /messages/0/toolCalls/0/function/a~1b"}, true},
		{"unknown outcome", `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"paused","until":1}}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`, []string{"unknown_variant /outcome"}, false},
		{"unknown role", `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"robot"},{"id":"n","role":"assistant"}]}`, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"n","role":"assistant"}]}`, []string{"unknown_variant /messages/0"}, false},
		{"unknown source drops the part", `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"image","extra":1,"source":{"type":"dream","value":""}},{"type":"text","text":"x"}]}`, `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"text","text":"x"}]}`, []string{"unknown_variant /content/0"}, false},
		{"unknown operation", `{"type":"STATE_DELTA","delta":[{"op":"swap","path":"/a"}]}`, `{"type":"STATE_DELTA","delta":[]}`, []string{"unknown_variant /delta/0"}, false},
		{"operations are open", `{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/a","value":1,"x":2}]}`, `{"type":"STATE_DELTA","delta":[{"op":"remove","path":"/a"}]}`, nil, true},
		{"nulls", `{"type":"RUN_FINISHED","threadId":"t","runId":"r","rawEvent":null,"outcome":null,"result":null}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`, []string{"null /result", "null /outcome", "null /rawEvent"}, false},
		{"null metadata of media", `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"image","source":{"type":"url","value":"u"},"metadata":null}]}`, `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"image","source":{"type":"url","value":"u"}}]}`, []string{"null /content/0/metadata"}, false},
		{"whole number", `{"type":"STEP_STARTED","stepName":"s","timestamp":1.5e3}`, `{"type":"STEP_STARTED","stepName":"s","timestamp":1500}`, nil, true},
		{"binary part", `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"user","content":[{"type":"binary","mimeType":"audio/mp3","url":"u","filename":"f"}]}]}`, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"user","content":[{"type":"audio","source":{"type":"url","value":"u","mimeType":"audio/mp3"},"metadata":{"filename":"f"}}]}]}`, []string{"retired /messages/0/content/0"}, false},
		{"binary part and its successor", `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"user","content":[{"type":"image","source":{"type":"data","value":"AA==","mimeType":"image/png"}},{"type":"binary","mimeType":"image/png","data":"AA=="}]}]}`, `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"user","content":[{"type":"image","source":{"type":"data","value":"AA==","mimeType":"image/png"}}]}]}`, []string{"retired /messages/0/content/1"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, seen, err := read(func(report func(agui.Deviation)) (agui.Event, error) {
				d := aguitest.Decoder{OnDeviation: report}
				return d.Event([]byte(tt.in))
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := agui.AppendJSON(nil, e)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v\nwant %s", got, err, tt.want)
			}
			if !slices.Equal(seen, tt.seen) {
				t.Errorf("reported %q, want %q", seen, tt.seen)
			}
			if _, err := aguitest.DecodeEvent([]byte(tt.in)); (err == nil) != tt.strict {
				t.Errorf("strict: %v, want accepted: %t", err, tt.strict)
			}
		})
	}
}

// How a server reads the input of a run: old and new peers are served, and faults are reported
// with their place.
func TestDecodeRunInput(t *testing.T) {
	const head = `{"threadId":"t","runId":"r",`
	tests := []struct {
		name, in string
		want     string // the input after encoding, or the place of the fault
		seen     []string
	}{
		{"least", head + `"messages":[]}`, head + `"messages":[],"tools":[],"context":[]}`, nil},
		{"old peer", head + `"state":null,"messages":[],"tools":[{"name":"n","description":"d","parameters":null}],"context":[],"forwardedProps":null,"resume":[{"interruptId":"i","status":"cancelled","payload":null}]}`, head + `"messages":[],"tools":[{"name":"n","description":"d"}],"context":[],"resume":[{"interruptId":"i","status":"cancelled"}]}`, []string{"null /tools/0/parameters", "null /forwardedProps", "null /resume/0/payload"}},
		{"new peer", head + `"protocolVersion":"1.9","messages":[],"more":{}}`, head + `"protocolVersion":"1.9","messages":[],"tools":[],"context":[]}`, []string{"unknown_member /more"}},
		{"snake case", `{"thread_id":"t","run_id":"r","messages":[]}`, "/threadId", nil},
		{"no messages", head + `"tools":[]}`, "/messages", nil},
		{"null tools", head + `"messages":[],"tools":null}`, "/tools", nil},
		{"boolean thread", `{"threadId":true,"runId":"r","messages":[]}`, "/threadId", nil},
		{"status", head + `"messages":[],"resume":[{"interruptId":"i","status":"approved"}]}`, "/resume/0/status", nil},
		{"null metadata", head + `"messages":[{"id":"m","role":"user","content":"","metadata":null}]}`, "/messages/0/metadata", nil},
		{"assistant with parts", head + `"messages":[{"id":"m","role":"assistant","content":[]}]}`, "/messages/0/content", nil},
		{"member twice", head + `"runId":"q","messages":[]}`, "/runId", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in, seen, err := read(func(report func(agui.Deviation)) (*agui.RunInput, error) {
				d, in := agui.Decoder{OnDeviation: report}, new(agui.RunInput)
				return in, d.Decode([]byte(tt.in), in)
			})
			if err != nil {
				var place *strictjson.Error
				if !errors.As(err, &place) || !errors.Is(err, message.ErrInvalid) || place.Path != tt.want {
					t.Errorf("refused with %v, want a fault at %s", err, tt.want)
				}
				return
			}
			got, err := agui.AppendJSON(nil, in)
			if err != nil || string(got) != tt.want || !slices.Equal(seen, tt.seen) {
				t.Errorf("got %s, %v, reported %q\nwant %s, %q", got, err, seen, tt.want, tt.seen)
			}
		})
	}
}

// The length and depth of an input are limited, and the input must have the requested type.
func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for _, tt := range []struct {
		name, in string
		want     error
	}{
		{"long", `{"type":"STEP_STARTED","stepName":"` + strings.Repeat("x", agui.MaxFrameBytes) + `"}`, message.ErrTooLarge},
		{"deep", `{"type":"STEP_STARTED","stepName":` + deep + `}`, strictjson.ErrTooDeep},
		{"another type", `{"type":"STEP_FINISHED","stepName":"s"}`, message.ErrInvalid},
		{"no type", `{"stepName":"s"}`, message.ErrInvalid},
	} {
		var d agui.Decoder
		if err := d.Decode([]byte(tt.in), new(agui.StepStarted)); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}
