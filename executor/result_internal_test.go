package executor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

// wireLen is the length that the engine compares with toolcall.MaxOutputBytes.
func wireLen(t interface{ Fatal(...any) }, r message.ToolResultBlock) int {
	b, err := strictjson.Marshal(struct {
		Output   message.Content         `json:"output"`
		State    message.ToolResultState `json:"state"`
		Metadata map[string]any          `json:"metadata"`
	}{r.Output, r.State, r.Metadata})
	if err != nil {
		t.Fatal("the result cannot be written:", err)
	}
	return len(b)
}

// A result says that its text is not exactly what the tool wrote.
func TestRepairedText(t *testing.T) {
	for text, want := range map[string]any{"caf\xe9": true, "café": nil} {
		for _, out := range []Output{Text(text), blocks(&message.TextBlock{Text: text}), {Content: message.Content{Text: text}, Metadata: map[string]any{"n": 1}}} {
			r := result(Task{Call: toolcall.Key{Call: "c"}, Tool: "t"}, out, nil)
			if r.State != message.ToolResultSuccess || r.Metadata[RepairedMember] != want {
				t.Errorf("%q: %s with the metadata %v", text, r.State, r.Metadata)
			}
		}
	}
}

// FuzzResultText checks that for any output of a tool the result can be encoded, fits the limit
// and keeps as much text as possible. The limit is small for speed.
func FuzzResultText(f *testing.F) {
	const limit = 4 << 10
	f.Add([]byte("hello"), 1, "")
	f.Add([]byte{0xff, 0xfe, 'a'}, 3, "no such file")
	f.Add([]byte("\x00"), limit/6+1, "")
	f.Add([]byte("\""), limit, "boom\xff")
	f.Add([]byte("é"), limit/2, "")
	f.Add([]byte("\u2028<&>"), limit/8, "x")
	f.Fuzz(func(t *testing.T, piece []byte, times int, fault string) {
		text := strings.Repeat(string(piece), min(max(times, 0), 2*limit/(len(piece)+1)))
		var err error
		if fault = clip(repair(fault), 256); fault != "" {
			err = errors.New(fault)
		}
		for _, out := range []Output{Text(text), blocks(&message.TextBlock{Text: text}, &message.TextBlock{Text: "end"})} {
			r := resultWithin(limit, Task{Call: toolcall.Key{Call: "c"}, Tool: "t"}, out, err)
			whole := repair(out.Content.String())
			got := r.Output.String()
			cut := strings.Contains(got, "over the limit")
			kept, _, _ := strings.Cut(got, "the tool ran to its end")
			switch n := wireLen(t, r) - (toolcall.MaxOutputBytes - maxOutput); {
			case n > limit:
				t.Errorf("the result takes %d bytes, want at most %d", n, limit)
			case !utf8.ValidString(got):
				t.Error("the output is not UTF-8")
			case (r.State == message.ToolResultSuccess) != (err == nil && !cut):
				t.Errorf("state %s with fault %v, cut %t", r.State, err, cut)
			case r.State == message.ToolResultSuccess && got != whole:
				t.Error("a success has lost text")
			case !cut && !strings.HasPrefix(got, whole):
				t.Error("text is missing, and nothing says so")
			case cut && err == nil && !strings.HasPrefix(whole+"\n", strings.TrimSuffix(kept, "\n")):
				t.Errorf("the output begins with %.80q, want the beginning of the tool's output", kept)
			}
		}
	})
}

func TestJSONLenIsWhatTheEncoderWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := repair(rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s"))
		b, err := strictjson.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := jsonLen(s), len(b)-2; got != want {
			t.Fatalf("jsonLen(%q) = %d, want %d", s, got, want)
		}
		limit := rapid.IntRange(0, len(b)).Draw(t, "limit")
		short := clip(s, limit)
		if jsonLen(short) > limit || !strings.HasPrefix(s, short) || !utf8.ValidString(short) {
			t.Fatalf("clip(%q, %d) = %q", s, limit, short)
		}
		if rest := s[len(short):]; rest != "" {
			_, size := utf8.DecodeRuneInString(rest)
			if jsonLen(short+rest[:size]) <= limit {
				t.Fatalf("clip(%q, %d) = %q, but one more character fits", s, limit, short)
			}
		}
	})
}

func TestResultLimits(t *testing.T) {
	image := func(n int) message.Block {
		return &message.DataBlock{Source: &message.Base64Source{Data: strings.Repeat("A", n), MediaType: "image/png"}}
	}
	text := func(n int) message.Block { return &message.TextBlock{Text: strings.Repeat("x", n)} }
	half := toolcall.MaxOutputBytes / 2
	cases := []struct {
		name  string
		out   Output
		err   error
		state message.ToolResultState
		kept  int    // blocks, including the note
		note  string // part of the output
	}{
		{"largest text", Text(strings.Repeat("x", maxOutput)), nil, message.ToolResultSuccess, 0, ""},
		{"one more", Text(strings.Repeat("x", maxOutput+1)), nil, message.ToolResultError, 0, "over the limit"},
		{"escapes count", Text(strings.Repeat("\x01", maxOutput/6+1)), nil, message.ToolResultError, 0, "over the limit"},
		{"text and images", blocks(text(10), image(half), image(half)), nil, message.ToolResultError, 3, "over the limit"},
		{"image then text", blocks(image(half), text(half)), nil, message.ToolResultError, 3, "over the limit"},
		{"one large image", blocks(image(2 * half)), nil, message.ToolResultError, 1, "over the limit"},
		{"dropped by the producer", Output{Content: message.Content{Text: "a"}, dropped: 2 * half}, nil, message.ToolResultError, 0, "over the limit"},
		{"error that just does not fit", Text(strings.Repeat("x", maxOutput-10)), errors.New("no such file"), message.ToolResultError, 0, "no such file\nthe tool ran to its end, but its output of 524150 bytes is over the limit"},
		{"long error", Output{}, errors.New(strings.Repeat("e", toolcall.MaxTextBytes+1)), message.ToolResultError, 0, "e […]"},
		{"interrupted stays", Output{Content: message.Content{Text: strings.Repeat("x", 2*half)}, State: message.ToolResultInterrupted}, nil, message.ToolResultInterrupted, 0, "over the limit"},
		{"nil block", blocks(nil, (*message.TextBlock)(nil), &message.DataBlock{}, text(1)), nil, message.ToolResultError, 2, "block 0 of the output was left out"},
		{"broken unknown block", blocks(&message.UnknownBlock{Kind: "x", Raw: message.RawJSON(`{"type":`)}), nil, message.ToolResultError, 1, "block 0 of the output was left out"},
		{"broken media type", blocks(&message.DataBlock{Source: &message.Base64Source{MediaType: "\xff"}}), nil, message.ToolResultError, 1, "block 0 of the output was left out"},
		{"large metadata", Output{Metadata: map[string]any{"k": strings.Repeat("x", toolcall.MaxTextBytes)}}, nil, message.ToolResultError, 0, "metadata of 16392 bytes was dropped"},
		{"unfit metadata", Output{Metadata: map[string]any{"k": make(chan int)}}, nil, message.ToolResultError, 0, "metadata was dropped"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := result(Task{Call: toolcall.Key{Call: "c"}, Tool: "t"}, c.out, c.err)
			if r.State != c.state || len(r.Output.Blocks) != c.kept {
				t.Errorf("state %s and %d blocks, want %s and %d", r.State, len(r.Output.Blocks), c.state, c.kept)
			}
			if n := wireLen(t, r); n > toolcall.MaxOutputBytes {
				t.Errorf("%d bytes, want at most %d", n, toolcall.MaxOutputBytes)
			}
			if got := r.Output.String(); !strings.Contains(got, c.note) {
				t.Errorf("the output ends with %q, want %q in it", got[max(0, len(got)-300):], c.note)
			}
			if len(r.Metadata) != 0 {
				t.Errorf("metadata %v", r.Metadata)
			}
		})
	}
}

// A handler cannot change a result that is being sent.
func TestResultIsACopy(t *testing.T) {
	b := &message.TextBlock{Text: "seen"}
	m := map[string]any{"n": 1}
	out := blocks(b)
	out.Metadata = m
	r := result(Task{}, out, nil)
	b.Text, m["n"] = "changed", 2
	if got := r.Output.String(); got != "seen" || r.Metadata["n"] != int64(1) {
		t.Errorf("result %q %v, want the values from before the change", got, r.Metadata)
	}
	if b.ID != "" || b.FinishedAt != nil {
		t.Error("the handler's block was changed")
	}
}

// A run that reaches its deadline is an error, for any cause.
func TestDeadlineIsAnErrorNotAnInterruption(t *testing.T) {
	ctx, stop := context.WithTimeoutCause(t.Context(), 0, errors.New("the attempt ran into its deadline"))
	defer stop()
	<-ctx.Done()
	r, _ := invoke(ctx, func(context.Context, Task) (Output, error) { panic("must not run") }, Task{})
	if r.State != message.ToolResultError || r.Output.String() != "the attempt ran into its deadline" {
		t.Errorf("result %s %q", r.State, r.Output.String())
	}
}

// rude panics in each of its methods.
type rude struct{}

func (rude) Error() string                { panic("rude error") }
func (rude) MarshalJSON() ([]byte, error) { panic("rude value") }

func TestPanicsOfWhatAHandlerReturns(t *testing.T) {
	for text, h := range map[string]Handler{
		"the tool panicked: rude error": func(context.Context, Task) (Output, error) { return Output{}, rude{} },
		"the tool panicked: rude value": func(context.Context, Task) (Output, error) {
			return Output{Metadata: map[string]any{"k": rude{}}}, nil
		},
	} {
		r, err := invoke(t.Context(), h, Task{})
		if _, is := errors.AsType[*PanicError](err); !is || r.State != message.ToolResultError || r.Output.String() != text {
			t.Errorf("result %s %q and %v, want error %q", r.State, r.Output.String(), err, text)
		}
	}
}

func blocks(blocks ...message.Block) Output { return Output{Content: message.List(blocks...)} }

// An engine's answer that the call was archived is final: nothing is sent again.
func TestArchivedCallsAreAnswered(t *testing.T) {
	if v := judgeStart(message.ErrArchived); v != gone {
		t.Errorf("a start: %v", v)
	}
	if v := judgeResult(message.ErrArchived); v != taken {
		t.Errorf("a result: %v", v)
	}
}
