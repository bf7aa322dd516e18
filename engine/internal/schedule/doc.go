// Package schedule is what the engine knows of time: when it has to look at an
// entity again ([Timers]), when it last heard of the owners of running attempts
// ([Liveness]), how long it pauses between attempts ([Pauses], [Double]), and
// which clocks differ from its own ([Clocks]).
//
// A timer only causes a look: what is due is decided from the journal and written
// by compare-and-swap, so that a doubled or stale timer is harmless. Each type
// guards itself; all methods may be called from many goroutines.
package schedule
