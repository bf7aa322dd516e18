package bench

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// StageCost is the share of a stage in a call's processor time.
type StageCost struct {
	Name  string  `json:"name"`
	What  string  `json:"what"`
	Share float64 `json:"share"`  // of all samples
	CPU   float64 `json:"cpu_us"` // per call: the share of Cost.CPU
}

// attribute assigns each sample to one stage, and returns the largest stage first.
func attribute(p *profile.Profile) ([]StageCost, error) {
	var total int64
	taken := map[string]int64{}
	for _, s := range p.Sample {
		n := s.Value[len(s.Value)-1] // nanoseconds
		taken[stageOf(functionsOf(s))] += n
		total += n
	}
	if total == 0 {
		return nil, errors.New("the profile has no samples: measure for longer")
	}
	var out []StageCost
	for _, s := range append(slices.Clone(stages), stage{name: otherStage, what: "everything else"}) {
		out = append(out, StageCost{Name: s.name, What: s.what, Share: float64(taken[s.name]) / float64(total)})
	}
	slices.SortStableFunc(out, func(a, b StageCost) int { return cmp.Compare(b.Share, a.Share) })
	return out, nil
}

// functionsOf returns the functions of a sample, the innermost first.
func functionsOf(s *profile.Sample) []string {
	var out []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			if line.Function != nil {
				out = append(out, strings.TrimPrefix(line.Function.Name, modulePrefix))
			}
		}
	}
	return out
}

func profileFile(dir, workload string) string { return filepath.Join(dir, workload+".pprof") }

const (
	modulePrefix = "github.com/askance-dev/askance/"
	otherStage   = "other"
)

// stage is a part of the work on a call, recognized by functions on the stack.
type stage struct {
	name, what string
	anywhere   []string // prefixes of functions of the stage, anywhere on the stack
	innermost  []string // prefixes of functions of the stage, unless an inner function has a stage
}

// The order decides if two stages name the same function.
var stages = []stage{
	{name: "collect", what: "garbage collection", anywhere: []string{
		"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.gcStart", "runtime.bgsweep", "runtime.bgscavenge", "runtime._GC",
	}},
	{name: "schedule", what: "the Go scheduler between goroutines", anywhere: []string{
		"runtime.mcall", "runtime.mstart", "runtime.schedule", "runtime.sysmon", "runtime._System", "runtime._ExternalCode", "runtime._VDSO",
		"racecall", // the race detector's own work has no stack
	}},
	{name: "server", what: "the NATS server: routing, streams, files", anywhere: []string{"github.com/nats-io/nats-server/"}},
	{name: "prove", what: "checkpoints that sign the journal", anywhere: []string{"bus/journal.(*Ledger)"}},
	{name: "sign", what: "Ed25519 signatures, mostly of grants", innermost: []string{"crypto/ed25519.Sign", "crypto/ed25519.sign", "crypto/ed25519.PrivateKey"}},
	{name: "verify", what: "checks of signatures", innermost: []string{"crypto/ed25519.Verify"}},
	{name: "hash", what: "SHA-256 and HMAC", innermost: []string{"crypto/sha256.", "crypto/hmac.", "crypto/internal/fips140/sha256.", "crypto/internal/fips140/hmac."}},
	{name: "encode", what: "values to JSON", innermost: []string{
		"internal/jcs.", "internal/strictjson.Marshal", "internal/strictjson.encode", "internal/strictjson.Append", "internal/strictjson.Quick",
		"internal/strictjson.quickMarshal", "internal/strictjson.(*quickWriter)",
		"github.com/go-json-experiment/json.Marshal", "encoding/json.Marshal",
	}},
	{name: "decode", what: "JSON to values, with its checks", innermost: []string{"internal/strictjson.", "github.com/go-json-experiment/json.Unmarshal", "encoding/json.Unmarshal"}},
	{name: "decide", what: "policy, responses and the state machine", innermost: []string{
		"permission.", "permission/", "cel.dev/", "github.com/santhosh-tekuri/jsonschema/", "toolcall.", "github.com/looplab/fsm.",
		"engine.(*decider)", "engine/reviewers.", "engine/internal/decide.", "engine/internal/approve.", "engine/internal/standing.", "engine/internal/budget.",
	}},
	{name: "follow", what: "records read back into the projection", innermost: []string{
		"bus/journal.(*watcher)", "bus/journal.(*Journal).Watch", "engine/internal/view.", "engine/internal/activity.", "engine/internal/store.(*Store).Follow", "engine/internal/store.watcher",
	}},
	{name: "publish", what: "records written to the journal", innermost: []string{
		"bus/journal.(*Journal).Append", "bus/journal.(*Journal).newAppend", "bus/journal.(*appending)", "bus/journal.(*chain)", "bus/journal.Direct", "engine/internal/store.",
	}},
	{name: "hand out", what: "tasks to workers, and the start of attempts", innermost: []string{
		"bus.(*Worker)", "bus.(*fetcher)", "bus.(*handing)", "bus.(*Service).next", "engine.(*Port).start", "engine.(*workers).startAttempt", "executor.(*Worker)", "executor.(*attempt).start",
	}},
	{name: "result", what: "runs and their results", innermost: []string{"executor.", "engine.(*Port).result", "engine.(*workers)"}},
	{name: "request", what: "requests of callers and workers, and the engine around the rest", innermost: []string{"engine.", "engine/", "bus.", "bus/journal.", "bus/internal/jsapi.", "message.", "message/", "cmd/askance/internal/bench."}},
	{name: "client", what: "connections to the NATS server", innermost: []string{"github.com/nats-io/"}},
}

// stageOf returns the stage of a stack, whose innermost function comes first.
func stageOf(functions []string) string {
	has := func(prefixes []string, f string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f, p) })
	}
	for _, s := range stages {
		if slices.ContainsFunc(functions, func(f string) bool { return has(s.anywhere, f) }) {
			return s.name
		}
	}
	for _, f := range functions {
		if i := slices.IndexFunc(stages, func(s stage) bool { return has(s.innermost, f) }); i >= 0 {
			return stages[i].name
		}
	}
	return otherStage
}
