package main

import "testing"

// The engines get the same rules and must give the same answers. Otherwise the figures compare
// different things.
func TestEnginesAgree(t *testing.T) {
	for _, s := range shapes {
		for _, n := range []int{1, 10, 100, 1000} {
			for input, want := range inputsOf(s, n) {
				for _, p := range peers {
					e, err := p.load(p.file(s, n))
					if err != nil {
						t.Fatalf("%s, %s, %d rules: %v", s.name, p.name, n, err)
					}
					got, err := e.decide([]byte(input))
					v, err2 := e.prepare([]byte(input))
					if err != nil || err2 != nil {
						t.Fatalf("%s, %s, %d rules: %v, %v", s.name, p.name, n, err, err2)
					}
					if ready, err := e.ready(v); got != want || ready != want || err != nil {
						t.Errorf("%s, %s, %d rules, %s: %s and %s, %v, want %s", s.name, p.name, n, input, got, ready, err, want)
					}
				}
			}
		}
	}
}
