package toolcall_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func TestEmitForeign(t *testing.T) {
	tests := []struct {
		event   string
		refused bool
	}{
		{`{"type":"CUSTOM","name":"askance.turn","value":{}}`, true},
		{`{"type":"CUSTOM","name":"\u0061sk\u0061nce.turn","value":{}}`, true},
		{`{ "name" : "askance." , "type" : "CUSTOM", "value": {} }`, true},
		{`{"type":"CUSTOM","name":"shop.askance.turn","value":{"name":"askance.turn"}}`, false},
		{`{"type":"TEXT_BLOCK_DELTA","reply_id":"r","block_id":"b","delta":"askance.turn \u00e9"}`, false},
		{`{"type":"CUSTOM","name":`, false}, // the engine reports what is wrong with it
	}
	for _, tt := range tests {
		r := toolcall.EmitRequest{Events: []message.RawJSON{message.RawJSON(`{"type":"TEXT_BLOCK_END","reply_id":"r","block_id":"b"}`), message.RawJSON(tt.event)}}
		err := r.Foreign()
		if errors.Is(err, message.ErrForbidden) != tt.refused || tt.refused != (err != nil) {
			t.Errorf("%s: %v, want refused %v", tt.event, err, tt.refused)
		}
		if err != nil && !strings.Contains(err.Error(), "events[1]") {
			t.Errorf("%v: does not say which event", err)
		}
	}
}
