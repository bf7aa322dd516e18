package agui_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
)

// declared returns the losses that the source declares.
func declared(t *testing.T) (losses []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "mapper.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Loss" {
			s, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, s)
		}
		return true
	})
	return losses
}

// The table in the package documentation and the code list the same losses in the same order.
func TestLossesAreDocumented(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?s)# Losses(.*)`).FindString(f.Doc.Text())
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\t([a-z-]+) +\S`).FindAllStringSubmatch(section, -1) {
		rows = append(rows, m[1])
	}
	if want := declared(t); !slices.Equal(rows, want) {
		t.Errorf("the documentation lists %q\nthe code lists          %q", rows, want)
	}
}

// lossy shows how each loss happens. The message side of the pair is the one that loses.
var lossy = map[agui.Loss]struct {
	run    agui.Run
	events []string
}{
	agui.LossTime:         {agui.Run{Peer: agui.Peer10}, []string{`{"type":"CUSTOM","name":"x","created_at":"2026-03-01T09:00:00.000001"}`}},
	agui.LossMetadata:     {agui.Run{Peer: agui.Peer10}, []string{`{"type":"CUSTOM","name":"x","metadata":{"agentscope":1}}`}},
	agui.LossUsageParts:   {agui.Run{Peer: agui.Peer10}, []string{modelTurn[1], `{"type":"MODEL_CALL_END","input_tokens":1,"output_tokens":1,"cache_input_tokens":2}`}},
	agui.LossMediaStream:  {agui.Run{Peer: agui.Peer10}, []string{`{"type":"DATA_BLOCK_START","block_id":"b","media_type":"a/b"}`, `{"type":"DATA_BLOCK_DELTA","block_id":"b","media_type":"a/b","data":""}`}},
	agui.LossResultStream: {agui.Run{Peer: agui.Peer10}, []string{resultWithMedia[0], resultWithMedia[1]}},
	agui.LossResultState:  {agui.Run{Peer: agui.Peer10}, []string{`{"type":"TOOL_RESULT_END","tool_call_id":"c","state":"denied"}`}},
	agui.LossRequestTime:  {agui.Run{Peer: agui.Peer10}, []string{askRefund}},
	agui.LossResponse:     {agui.Run{Peer: agui.Peer10}, []string{`{"type":"USER_CONFIRM_RESULT","confirm_results":[]}`}},
	agui.LossExternal:     {agui.Run{Peer: agui.Peer10}, []string{requirePick}},
	agui.LossMaxIters:     {agui.Run{Peer: agui.Peer10}, []string{`{"type":"EXCEED_MAX_ITERS","name":"bot"}`}},
	agui.LossOutOfPlace:   {agui.Run{Peer: agui.Peer10}, []string{`{"type":"TEXT_BLOCK_END","block_id":"b"}`}},
	agui.LossTyped:        {agui.Run{Peer: agui.Peer10}, []string{`{"type":"NEW"}`}},
	agui.LossCancelled:    {agui.Run{}, []string{`{"type":"REPLY_END","session_id":"s","finished_reason":"interrupted"}`}},
	agui.LossResultMedia:  {agui.Run{}, resultWithMedia[:5]},
}

// Every loss happens at the last event of its story and is reported there.
func TestLossesAreReported(t *testing.T) {
	for _, name := range declared(t) {
		t.Run(name, func(t *testing.T) {
			var lost []agui.Loss
			story, mapped := lossy[agui.Loss(name)]
			switch {
			case mapped:
				m := agui.NewMapper(story.run, agui.Mapping{OnLoss: func(_ message.Event, l agui.Loss) { lost = append(lost, l) }})
				events := scopeAsIs(t, story.events)
				for i, e := range events {
					if i == len(events)-1 {
						lost = nil
					}
					m.Map(e)
				}
			case agui.Loss(name) == agui.LossPending: // no event of AgentScope is mapped when a run parks
				_, lost = agui.PeerLegacy.Adapt(&agui.RunFinished{Outcome: &agui.Outcome{Type: agui.OutcomeSuccess, PendingToolCallIDs: []string{"c"}}})
			default:
				t.Fatal("no story shows this loss; add one")
			}
			if !slices.Contains(lost, agui.Loss(name)) {
				t.Errorf("lost %v, want %s among them", lost, name)
			}
		})
	}
}

// A story without losses reports none.
func TestMapperLosesNothingNeedlessly(t *testing.T) {
	m := agui.NewMapper(agui.Run{Peer: agui.Peer10}, agui.Mapping{OnLoss: func(e message.Event, l agui.Loss) { t.Errorf("%s loses %s", e.Type(), l) }})
	mapAll(m, scope(t, append(slices.Clip(modelTurn),
		`{"type":"TEXT_BLOCK_START","block_id":"b"}`, `{"type":"TEXT_BLOCK_DELTA","block_id":"b","delta":"x"}`, `{"type":"TEXT_BLOCK_END","block_id":"b"}`,
		`{"type":"TOOL_RESULT_START","tool_call_id":"c1","tool_call_name":"refund"}`, `{"type":"TOOL_RESULT_END","tool_call_id":"c1","state":"success"}`,
		`{"type":"REPLY_END","session_id":"s"}`)...))
}

// scopeAsIs is like scope for lines that contain created_at.
func scopeAsIs(t *testing.T, lines []string) []message.Event {
	t.Helper()
	var out []message.Event
	for _, l := range lines {
		if regexp.MustCompile(`created_at`).MatchString(l) {
			e, err := message.DecodeEvent([]byte(l))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
			continue
		}
		out = append(out, scope(t, l)...)
	}
	return out
}
