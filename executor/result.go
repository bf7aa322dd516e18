package executor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// result turns what a handler returned into the block that ends the call. It
// always gives one that can be written, within the limits and with a final
// state: a result that the engine had to refuse would strand the call.
func result(t Task, out Output, err error) message.ToolResultBlock {
	return resultWithin(maxOutput, t, out, err)
}

// resultWithin is result with a limit of its own, above what the faults take.
func resultWithin(limit int, t Task, out Output, err error) message.ToolResultBlock {
	now := timestamp()
	res := message.ToolResultBlock{
		ID: t.Call.Call, Name: t.Tool, State: out.State, Metadata: map[string]any{},
		CreatedAt: now, FinishedAt: &now,
	}
	var faults []error // each makes a success an error and is told in the text
	switch out.State {
	case "":
		res.State = message.ToolResultSuccess
	case message.ToolResultSuccess, message.ToolResultError, message.ToolResultInterrupted, message.ToolResultDenied:
	default:
		res.State = message.ToolResultError
		faults = append(faults, fmt.Errorf("the tool returned the state %q, which ends no call", clip(string(out.State), 64)))
	}
	content, cerr := clean(out.Content)
	metadata, metadataLen, merr := cleanMetadata(out.Metadata)
	res.Metadata, faults = metadata, append(faults, err, cerr, merr)

	size := metadataLen + contentLen(content) + out.dropped
	note := faultText(faults)
	if n := size + noteLen(note); n > limit {
		faults = append(faults, &OutputError{Bytes: size, Limit: limit})
		note = faultText(faults)
		content = shortened(content, limit-metadataLen-noteLen(note))
	}
	if note != "" && res.State == message.ToolResultSuccess {
		res.State = message.ToolResultError
	}
	res.Output = appended(content, note)
	return res
}

// maxOutput is what a result may hold. The engine's limit is on output, state
// and metadata as one JSON object; the difference is for what surrounds them.
const maxOutput = toolcall.MaxOutputBytes - 128

// noteLen is at least what the note takes as JSON, as a line or a block.
func noteLen(note string) int {
	const block = 256 // more than a text block takes beside its text
	if note == "" {
		return 0
	}
	return jsonLen(note) + block
}

// faultText puts the faults into one text, one a line, each of bounded length.
func faultText(faults []error) string {
	var lines []string
	for _, err := range faults {
		if err == nil {
			continue
		}
		text := repair(err.Error())
		if short := clip(text, toolcall.MaxTextBytes); short != text {
			text = short + " […]"
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

// appended puts note after the content, as a line or a block of its own.
func appended(c message.Content, note string) message.Content {
	switch {
	case note == "":
	case c.IsList():
		c.Blocks = append(slices.Clip(c.Blocks), newText(note))
	case c.Text == "" || strings.HasSuffix(c.Text, "\n"):
		c.Text += note
	default:
		c.Text += "\n" + note
	}
	return c
}

// cleanMetadata copies m through its JSON form, so that it can be written and
// the handler has no hand in it any more, and gives the length of that form. An
// unfit or oversized one is dropped.
func cleanMetadata(m map[string]any) (clean map[string]any, size int, err error) {
	none := map[string]any{}
	if len(m) == 0 {
		return none, 0, nil
	}
	b, err := strictjson.Marshal(m)
	if err != nil {
		return none, 0, fmt.Errorf("the result's metadata was dropped: %w", err)
	}
	if len(b) > toolcall.MaxTextBytes {
		return none, 0, fmt.Errorf("the result's metadata of %d bytes was dropped, the limit is %d", len(b), toolcall.MaxTextBytes)
	}
	if clean, err = strictjson.Object(b); err != nil {
		return none, 0, fmt.Errorf("the result's metadata was dropped: %w", err)
	}
	return clean, len(b), nil
}

// timestamp is now as AgentScope spells it, in UTC.
func timestamp() string { return message.Timestamp(time.Now().UTC()) }
