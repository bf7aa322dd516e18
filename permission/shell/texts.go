package shell

import "slices"

// work is what all readings within one line share.
type work struct {
	inners map[textKey]*Line // texts in the line that have been read
	// steps counts what has been done: bytes given to a parser or split into
	// words, words and commands looked at.
	steps int
}

func newWork() *work { return &work{inners: map[textKey]*Line{}} }

// textKey is what the reading of a text in a line depends on, but for the place.
type textKey struct {
	text  string
	level int
	fed   bool
}

// perTaken is what it costs to take over one command of a text that has been
// read before, in bytes of text.
const perTaken = 16

// readInner analyses a text in the text. The line is read as bash and as sh, and
// both come upon the same texts, so each is read only once. Taking over what is
// in it is work too: a text could hold the same text many times, on every level.
func (x *extractor) readInner(text string, offset int, fed bool) *Line {
	key := textKey{text, x.level + 1, fed}
	if found, ok := x.work.inners[key]; ok {
		cost := perTaken * (2 + len(found.Commands) + len(found.Nested) + len(found.crude) + len(found.unclear))
		if cost <= x.budget {
			x.budget -= cost
			return found.at(offset)
		}
	}
	in := &extractor{line: &Line{Text: text}, text: text, base: offset, budget: x.budget, level: x.level + 1, fed: fed, work: x.work}
	in.readLine(text)
	x.budget = in.budget
	x.work.inners[key] = in.line
	return in.line.at(offset)
}

// at is the line of a text that stands at one offset, moved to another one.
// What it returns may be changed.
func (l *Line) at(offset int) *Line {
	moved := *l
	for _, list := range []*[]Command{&moved.Commands, &moved.Nested} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Offset = offset
		}
	}
	moved.unclear = slices.Clone(l.unclear)
	for i := range moved.unclear {
		moved.unclear[i].Offset = offset
	}
	return &moved
}
