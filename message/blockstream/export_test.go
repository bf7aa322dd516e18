package blockstream

// Close ends the open turn, so a test can check a complete one.
func (m *Mapper) Close() []Frame {
	m.endTurn("")
	return m.flush()
}

// EncodeCommand writes a command as clients send it.
func EncodeCommand(c Command) ([]byte, error) { return format.Append(nil, c) }

// Open returns the approvals that wait for a decision, oldest first.
func (m *Mapper) Open() []Asked {
	var out []Asked
	for _, r := range m.requests.asked {
		if r.open {
			out = append(out, r.Asked)
		}
	}
	return out
}
