package blockstream

// Close ends the open turn, so that a test can check a whole one.
func (m *Mapper) Close() []Frame {
	m.endTurn("")
	return m.flush()
}

// EncodeCommand writes a command as clients send it.
func EncodeCommand(c Command) ([]byte, error) { return format.Append(nil, c) }
