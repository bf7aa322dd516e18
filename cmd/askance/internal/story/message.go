package story

import (
	"fmt"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
)

// kindWidth fits the longest block type, tool_result.
const kindWidth = 12

// Message writes a whole message, one block after the other. edited has the
// arguments of calls that a person edited, because a message keeps the model's.
func Message(out *term.Out, m *message.Msg, edited map[message.CallID]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s from %s\n", m.Role, out.Bold(term.SafeLine(m.ID)), out.Who(term.SafeLine(m.Name)))
	for _, block := range m.Content {
		b.WriteString(blockText(out, block))
		if call, ok := block.(*message.ToolCallBlock); ok {
			b.WriteString(editedText(out, call, edited))
		}
	}
	if m.Usage != nil {
		fmt.Fprintf(&b, "  %s %d tokens in, %d out\n", out.Dim(pad("usage", kindWidth)), m.Usage.InputTokens, m.Usage.OutputTokens)
	}
	if m.FinishedReason != nil {
		fmt.Fprintf(&b, "  %s %s\n", out.Dim(pad("finished", kindWidth)), term.SafeLine(string(*m.FinishedReason)))
	}
	if m.Error != nil {
		fmt.Fprintf(&b, "  %s %s: %s\n", out.Bad(pad("error", kindWidth)), term.SafeLine(string(m.Error.Type)), term.SafeLine(m.Error.Message))
	}
	_, err := out.Write([]byte(b.String()))
	return err
}

func editedText(out *term.Out, call *message.ToolCallBlock, edited map[message.CallID]string) string {
	input, ok := edited[call.ID]
	if !ok {
		return ""
	}
	width := max(40, min(out.Width(), 120)-kindWidth-3) - nameWidth - 11
	return strings.Repeat(" ", kindWidth+nameWidth+4) + out.Ask(pad("edited", 9)) + " " + term.Clip(term.SafeLine(call.Name+" "+input), width) + "\n"
}

func blockText(out *term.Out, block message.Block) string {
	kind := "  " + out.Dim(pad(string(block.Type()), kindWidth)) + " "
	width := max(40, min(out.Width(), 120)-kindWidth-3)
	line := func(s string) string { return kind + term.Clip(s, width) + "\n" }
	switch b := block.(type) {
	case *message.TextBlock:
		return kind + wrapText(term.Safe(b.Text), width) + "\n"
	case *message.ThinkingBlock:
		return kind + wrapText(term.Safe(b.Thinking), width) + "\n"
	case *message.HintBlock:
		return line(outputLine(b.Hint))
	case *message.DataBlock:
		return line("data " + term.SafeLine(b.ID))
	case *message.ToolCallBlock:
		name := term.SafeLine(string(b.ID))
		return kind + out.Name(pad(name, nameWidth)) + " " + term.Clip(fmt.Sprintf("%-9s %s", b.State, term.SafeLine(b.Name+" "+b.Input)), width-nameWidth-1) + "\n"
	case *message.ToolResultBlock:
		name := term.SafeLine(string(b.ID))
		return kind + out.Name(pad(name, nameWidth)) + " " + stateColour(out, b.State)(pad(string(b.State), 9)) + " " + term.Clip(outputLine(b.Output), width-nameWidth-11) + "\n"
	case *message.UnknownBlock:
		return line("a block of an unknown type")
	}
	return line(term.SafeLine(string(block.Type())))
}

func stateColour(out *term.Out, s message.ToolResultState) func(string) string {
	if s == message.ToolResultSuccess {
		return out.Good
	}
	return out.Bad
}

func wrapText(text string, width int) string {
	var b strings.Builder
	w := term.Wrapper{Out: func(s string) { b.WriteString(s) }, Width: min(width, 80)}
	w.Write(text)
	w.Flush()
	return strings.TrimLeft(term.Indent(b.String(), strings.Repeat(" ", kindWidth+3)), " ")
}
