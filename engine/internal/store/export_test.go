package store

// InFlight returns the number of writes that the store keeps.
func (s *Store) InFlight() int {
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	return len(s.own.records)
}

// EndWatch does what the end of the watch does to writes in flight.
func (s *Store) EndWatch() { s.own.dropAll() }
