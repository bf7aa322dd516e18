// Package e2e proves askance with real processes: the askance command as engine
// and as worker, the real nats-server, a tool that leaves traces in files. They
// are killed with SIGKILL, frozen, starved of disk; then the journal and the
// files are held against each other. The package has tests only.
//
// # What must hold
//
// After every test, with any processes killed in it:
//
//   - The tool ran only under an attempt whose start was in the journal before,
//     after an allow, with the very bytes that were decided on, and once per
//     attempt.
//   - With the idempotency key the effect exists exactly once. Without one it
//     exists at most once, and a call whose owner died after the start waits as
//     unknown until a person resolves it.
//   - Every call ends or waits for a person: it asks, it is held, or it is behind
//     one of its batch that is. When all are resolved, all have ended.
//   - Every answer that an engine gave is in the journal as it was given, and
//     every approval request that was open is open still under the same digest.
//   - Every record is authentic, and every history is one that the machine
//     could have written.
//   - An auditor finds nothing with askance audit verify: every event record is in its
//     chain and under a checkpoint. Receipts of calls that were struck are
//     checked without a server.
//
// # Crash points
//
// At each point 20 kills must come in time; those that came too early or too
// late, as the journal tells afterwards, are not counted. Each round also has a
// call next to the struck one, one that asks and one that is denied. The processes
// go on with the same data from kill to kill.
//
//	point              killed  the struck call then                                kills
//	asking             engine  asks still, under the same digest                   20
//	restarting         engine  the same, with another kill while it starts again   20 x 2
//	answer unanswered  engine  asks still, or the answer counts: once              20
//	allowed            engine  is run (approve and submit are one record)          20
//	submitted          engine  is run                                              20
//	local start        engine  runs again with its key, or waits as unknown        20
//	worker start       engine  ends with the result, or as after a lost lease      20
//	result unanswered  engine  ends with the result, sent again until answered     20
//	result stored      engine  has ended                                           20
//	worker offered     worker  is run                                              20
//	worker running     worker  runs again with its key, or waits as unknown        20
//
// Other tests:
//
//	TestTwoWorkers       one of two workers killed in mid-run      20 kills; each attempt has one owner
//	TestInputsKilled     engine or worker killed, large inputs     2 kills in each of 8 cells; every tool read its whole input
//	TestInterruptKilled  engine killed during an interrupt         20 kills; nothing begins afterwards
//	TestNATSKilled       external NATS killed, in traffic          20 kills; nothing acknowledged is lost
//	TestEngineKilled     one of two engines killed, in traffic     20 kills; the other finishes alone
//	TestAnythingKilled   NATS, an engine or a worker, in traffic   30 kills
//	TestFrozenWorker     SIGSTOP until given up, then SIGCONT      6 times; given up within lease + 1 s
//	TestFrozenEngine     the same with one of two engines          8 times; the other goes on
//	TestFrozenAlone      the same with the only engine             4 times
//	TestRollingRestart   a cluster of three is restarted, its leader killed  no client sees an error, nothing is lost
//	TestFaults           2 seeded runs of 17 kinds of faults on a cluster of three  all replies have one order, nothing is lost
//	TestTryCluster       deploy/cluster/try.sh, a server killed  ready with two servers; Ctrl-C leaves no process
//	TestHungEngine       SIGSTOP of one of two engines for 17 s    the other answers and works as if alone
//	TestNoLeaveAfterHold a worker that asks late to start          refused, once the call is blocked
//	TestStoreFull        external NATS with a bounded store        refused with code full, nothing lost
//	TestDamagedJournal   the store of a stopped engine is damaged  20 ways, after a kill and a stop; refused until the loss is accepted, or nothing missing
//	TestLossUnderEngine  a server loses records of an engine       4 ways, while it lives and while it is stopped; it ends
//	TestDiskFull         writing fails under an engine             the same; the process goes on with room
//
// TestCampaign has two runtimes and two approvers as processes, over an external
// NATS, two engines and four workers, with inputs of up to 60 KB, edits, answers
// of two people, interrupts and revocations. All of them are killed and frozen at
// random. It also checks that two people approved what needs two, and that no
// call began under a standing approval whose revocation was acknowledged. A failed
// one names its transcript: JSON lines with each strike, request and answer.
//
//	make campaign MINUTES=10            # a long one; it prints its seed
//	make campaign SEED=7 MINUTES=10     # the same strikes and the same requests
//	make campaign REPLAY=transcript     # those of a transcript
//
// TestFaults has four clients propose and respond, through engines and servers that are
// killed, stopped, cut off, split, delayed, out of disk, too slow, or flooded. The history of
// each call is checked for linearizability (internal/lineartest). A failed run prints its
// seed, its faults and its history:
//
//	make faults                         # 10,000 runs in one process, 100 on a cluster
//	make faults CLUSTER_RUNS=1000       # a night
//	make faults SEED=7                  # the same faults and requests
//
// TestOneRequest is about people: one approval request on six surfaces at once (the
// published AG-UI client, content blocks, AgentScope, the web inbox in Chromium,
// the terminal inbox, plain NATS); each wins once, and a kill. It needs
// Node with the packages of gateway/testdata/node, and Chromium.
//
// # Running
//
// Each test prints its seed. ASKANCE_E2E_SEED=n repeats its choices: tools,
// inputs, who is killed and when. What the machine makes of them can differ.
// ASKANCE_E2E_RACE=1 builds the command with the race detector.
// ASKANCE_E2E_INPUT_KILLS=n makes TestInputsKilled kill n times in each cell.
//
// No test needs rights. Where mounting is allowed, TestDiskFull fills real small
// file systems besides running into a file size limit.
//
// # What it does not do
//
// It does not cut power: a process that dies leaves its writes to the kernel.
// That acknowledged means synced to the disk is a setting of the NATS server.
package e2e
