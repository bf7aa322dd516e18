package blockstream

// Close ends the open turn, so that a test can check a whole one.
func (m *Mapper) Close() []Frame {
	m.endTurn("")
	return m.flush()
}
