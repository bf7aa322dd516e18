package agui

import (
	"slices"
	"strconv"

	"github.com/askance-dev/askance/message"
)

// modelMapper maps model calls, which are the steps of a run, and counts their usage.
type modelMapper struct {
	*scope
	count int    // model calls in this run
	name  string // of the model that is writing
	usage []TokenUsage
}

func (m *modelMapper) modelStart(e *message.ModelCallStart) []Event {
	out := m.endModel()
	m.count++
	m.name, m.round = e.ModelName, round{}
	name := "model:" + strconv.Itoa(m.count)
	m.recordOpen(blockStep, name, &StepFinished{StepName: name})
	return append(out, &StepStarted{Tagged: m.taggedBase(e, map[string]any{"modelName": e.ModelName}), StepName: name})
}

// endModel ends the step of a model call whose end was missing.
func (m *modelMapper) endModel() []Event {
	i := slices.IndexFunc(m.open, func(o opening) bool { return o.at.kind == blockStep })
	if i < 0 {
		return nil
	}
	o := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	return stampTime(o.close, m.at)
}

func (m *modelMapper) modelEnd(e *message.ModelCallEnd) []Event {
	m.countUsage(e)
	out := m.endModel()
	if out == nil {
		m.lose(e, LossOutOfPlace)
		return nil
	}
	if s, ok := out[0].(*StepFinished); ok {
		s.Base = m.base(e, map[string]any{
			"finishedReason": string(e.FinishedReason), "inputTokens": e.InputTokens, "outputTokens": e.OutputTokens,
			"cacheInputTokens": e.CacheInputTokens, "cacheCreationInputTokens": e.CacheCreationInputTokens,
		})
	}
	m.name = ""
	return out
}

// countUsage adds a model call to the run's usage. AG-UI's cache counters are parts of its
// totals; if AgentScope's are larger than the input, the input cannot include them, and they
// are left out.
func (m *modelMapper) countUsage(e *message.ModelCallEnd) {
	i := slices.IndexFunc(m.usage, func(u TokenUsage) bool {
		return u.Model == nil && m.name == "" || u.Model != nil && *u.Model == m.name
	})
	if i < 0 {
		i = len(m.usage)
		m.usage = append(m.usage, TokenUsage{})
		if m.name != "" {
			m.usage[i].Model = new(m.name)
		}
	}
	u := &m.usage[i]
	add(&u.InputTokens, e.InputTokens)
	add(&u.OutputTokens, e.OutputTokens)
	if e.CacheInputTokens < 0 || e.CacheCreationInputTokens < 0 ||
		e.CacheInputTokens > e.InputTokens || e.CacheCreationInputTokens > e.InputTokens-e.CacheInputTokens {
		m.lose(e, LossUsageParts)
		return
	}
	if e.CacheInputTokens > 0 {
		add(&u.CachedInputTokens, e.CacheInputTokens)
	}
	if e.CacheCreationInputTokens > 0 {
		add(&u.CacheWriteInputTokens, e.CacheCreationInputTokens)
	}
}

// add keeps a counter within AG-UI's range.
func add(total **int64, n int64) {
	sum := max(n, 0)
	if *total != nil {
		sum = min(sum, maxSafe) + **total
	}
	*total = new(min(sum, maxSafe))
}
