// Package metrics shows an engine to Prometheus: its open calls, its policy, and
// the load of its reviewers, as text at /metrics.
//
// The counters and the time to answer count from the beginning of the journal,
// so that rates over any window are Prometheus's to take. The gauges named
// askance_reviewer_recent_* are about the answers of a window that ends with the
// scrape, an hour unless askance serve --metrics-window says otherwise; who has
// not answered within it is left out.
//
// Nothing is counted here. Each scrape reads what the engine knows, so a scrape
// costs one pass over the reviewers, and no scrape costs nothing. The names of
// reviewers are labels; package reviewers bounds how many there can be.
package metrics
