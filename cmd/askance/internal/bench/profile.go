package bench

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
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

// profiler takes a CPU profile while a workload runs.
type profiler struct{ data bytes.Buffer }

func startProfile() (*profiler, error) {
	p := new(profiler)
	if err := pprof.StartCPUProfile(&p.data); err != nil {
		return nil, fmt.Errorf("take a profile: %w", err)
	}
	return p, nil
}

// stop ends the profile, writes it to a file and divides it into stages, the
// largest first.
func (p *profiler) stop(file string) ([]StageCost, error) {
	pprof.StopCPUProfile()
	if err := os.WriteFile(file, p.data.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("write the profile: %w", err)
	}
	read, err := profile.Parse(&p.data)
	if err != nil {
		return nil, fmt.Errorf("read the profile: %w", err)
	}
	return attribute(read)
}

// attribute assigns each sample to one stage.
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
