// Package metrics shows an engine to Prometheus: its open calls, its policy, and
// the load of its reviewers, as text at /metrics.
//
// Nothing is counted here. Each scrape reads what the engine knows, so a scrape
// costs one pass over the reviewers, and no scrape costs nothing. The names of
// reviewers are labels; package reviewers bounds how many there can be.
package metrics
