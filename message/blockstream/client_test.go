package blockstream_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/askance-dev/askance/message/blockstream"
)

// The two published client programs, statement by statement, applied to the JSON that is sent.
// Their mistakes are kept, because the server has to work with them.

type object = map[string]any

// viewer is a client program.
type viewer interface{ handle(msg object) }

// feed sends frames to a client as text.
func feed(t testing.TB, v viewer, frames []blockstream.Frame) {
	t.Helper()
	for _, f := range frames {
		raw, err := blockstream.AppendFrame(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		var msg object
		if err := json.Unmarshal(raw, &msg); err != nil {
			t.Fatal(err)
		}
		v.handle(msg)
	}
}

// react is the hook useStreamProcessor.
type react struct {
	blocks     []object
	inProgress map[float64]object
	toolUse    map[string]int
	streaming  bool
	ignored    int // deltas and stops of unknown blocks, which a correct server never sends
}

func newReact() *react {
	return &react{inProgress: map[float64]object{}, toolUse: map[string]int{}}
}

func (r *react) handle(msg object) {
	switch msg["type"] {
	case "message_start":
		clear(r.inProgress)
		clear(r.toolUse)
		r.blocks, r.streaming = nil, true
	case "content_block_start":
		block := maps.Clone(msg["content_block"].(object))
		block["index"], block["_parts"] = msg["index"], ""
		r.inProgress[msg["index"].(float64)] = block
	case "content_block_delta":
		block := r.inProgress[msg["index"].(float64)]
		if block == nil {
			r.ignored++
			return
		}
		r.delta(block, msg["delta"].(object))
	case "content_block_stop":
		index := msg["index"].(float64)
		block := r.inProgress[index]
		if block == nil {
			r.ignored++
			return
		}
		delete(r.inProgress, index)
		r.stop(block)
	case "message_stop":
		r.streaming = false
	}
}

func (r *react) delta(block, d object) {
	switch d["type"] {
	case "text_delta":
		block["_parts"] = block["_parts"].(string) + d["text"].(string)
		block["text"] = block["_parts"]
		if x, ok := d["extras"].(object); ok {
			switch x["block_subtype"] {
			case "user_stopped":
				block["type"] = "terminal_user_stopped"
			case "error":
				block["type"], block["extras"] = "terminal_error", x
			}
		}
	case "thinking_delta":
		block["_parts"] = block["_parts"].(string) + d["thinking"].(string)
		block["thinking"] = block["_parts"]
	}
	if d["action_requests"] != nil {
		block["actionRequests"], block["reviewConfigs"], block["timeoutSeconds"] = d["action_requests"], d["review_configs"], d["timeout_seconds"]
	}
	if s, _ := d["status"].(string); s != "" {
		block["processingStatus"] = s
	}
	if s, _ := d["message"].(string); s != "" {
		block["processingMessage"] = s
	}
}

func (r *react) stop(block object) {
	if block["type"] == "tool_result" {
		if i, ok := r.toolUse[block["tool_use_id"].(string)]; ok {
			use := maps.Clone(r.blocks[i])
			use["toolResult"], use["toolResultError"], use["artifact"] = block["content"], block["status"] == "error", block["artifact"]
			r.blocks = slices.Clone(r.blocks)
			r.blocks[i] = use
			return
		}
	}
	r.blocks = append(r.blocks, block)
	if block["type"] == "tool_use" {
		r.toolUse[block["id"].(string)] = len(r.blocks) - 1
	}
}

func (r *react) of(kind string) []object {
	return slices.DeleteFunc(slices.Clone(r.blocks), func(b object) bool { return b["type"] != kind })
}

// dart is the class StreamProcessor.
type dart struct {
	inProgress map[float64]*dartBlock
	toolUse    map[string]int
	blocks     []*dartBlock
	streaming  bool
	ignored    int
	// rangeErrors counts results for blocks that the client's own deltas have removed.
	rangeErrors int
	// stopped contains every block that was ever finished, in order.
	stopped []*dartBlock
}

type dartBlock struct {
	index          float64
	kind           string
	data           object
	text, thinking string
	extras         object
	actionRequests []any
	toolResult     any
	toolResultErr  bool
}

func newDart() *dart { return &dart{inProgress: map[float64]*dartBlock{}, toolUse: map[string]int{}} }

func (d *dart) handle(msg object) {
	switch msg["type"] {
	case "message_start":
		clear(d.inProgress)
		clear(d.toolUse)
		d.blocks, d.stopped, d.streaming = nil, nil, true
	case "content_block_start":
		cb := msg["content_block"].(object)
		d.inProgress[msg["index"].(float64)] = &dartBlock{index: msg["index"].(float64), kind: cb["type"].(string), data: cb}
	case "content_block_delta":
		block := d.inProgress[msg["index"].(float64)]
		if block == nil {
			d.ignored++
			return
		}
		block.delta(msg["delta"].(object))
		d.blocks = slices.SortedFunc(maps.Values(d.inProgress), func(a, b *dartBlock) int { return int(a.index - b.index) })
	case "content_block_stop":
		block := d.inProgress[msg["index"].(float64)]
		if block == nil {
			d.ignored++
			return
		}
		delete(d.inProgress, block.index)
		d.stop(block)
	case "message_stop":
		d.streaming = false
	}
}

func (b *dartBlock) delta(delta object) {
	switch delta["type"] {
	case "text_delta":
		b.text += delta["text"].(string)
		if x, ok := delta["extras"].(object); ok {
			switch x["block_subtype"] {
			case "user_stopped":
				b.kind = "terminal_user_stopped"
			case "error":
				b.kind, b.extras = "terminal_error", x
			}
		}
	case "thinking_delta":
		b.thinking += delta["thinking"].(string)
	}
	if list, ok := delta["action_requests"].([]any); ok {
		b.actionRequests = list
	}
}

func (d *dart) stop(block *dartBlock) {
	if block.kind == "tool_result" {
		if i, ok := d.toolUse[block.data["tool_use_id"].(string)]; ok {
			if i >= len(d.blocks) {
				d.rangeErrors++
				return
			}
			use := *d.blocks[i]
			use.toolResult, use.toolResultErr = block.data["content"], block.data["status"] == "error"
			d.blocks = slices.Clone(d.blocks)
			d.blocks[i] = &use
			return
		}
	}
	if block.kind == "tool_use" {
		d.toolUse[block.data["id"].(string)] = len(d.blocks)
	}
	d.blocks = append(slices.Clone(d.blocks), block)
	d.stopped = append(d.stopped, block)
}
