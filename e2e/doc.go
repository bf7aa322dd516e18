// Package e2e tests askance with real processes: the askance command as engine and as
// worker, the real nats-server, and a tool that records its runs in files. They are
// killed with SIGKILL, frozen, and run out of disk space. Then the journal is compared
// with the files. The package contains only tests.
//
// # What must hold
//
// After every test, no matter which processes it killed:
//
//   - The tool ran only in an attempt whose start was already in the journal,
//     after an allow, with exactly the bytes that were decided on, and once per
//     attempt.
//   - With an idempotency key the effect exists exactly once. Without one it exists
//     at most once, and a call whose owner died after the start has an unknown
//     outcome until a person resolves it.
//   - Every call ends or waits for a person: it asks, is blocked, or waits for a
//     call of its batch that does. After all are resolved, all have ended.
//   - Every answer that an engine gave is in the journal unchanged, and every
//     approval request that was open is still open with the same digest.
//   - Every record is authentic, and every history is one that the state machine
//     can write.
//   - askance audit verify finds no fault: every event record is in its chain and
//     covered by a checkpoint. Receipts of the calls hit by a kill are checked
//     without a server.
//
// # Crash points
//
// At each point 20 kills must come in time. Kills that the journal shows to be too
// early or too late are not counted. Each round also has another call beyond the one
// hit, one that asks and one that is denied. The processes keep their data from kill to
// kill.
//
//	point              killed  the call hit, afterwards                            kills
//	asking             engine  still asks, with the same digest                    20
//	restarting         engine  the same, with another kill while it starts again   20 x 2
//	answer unanswered  engine  still asks, or the answer took effect once          20
//	allowed            engine  is run (approve and submit are one record)          20
//	submitted          engine  is run                                              20
//	local start        engine  runs again with its key, or waits as unknown        20
//	worker start       engine  ends with the result, or as after a lost lease      20
//	result unanswered  engine  ends with the result, sent again until answered     20
//	result lost        both    runs again with its key, or waits as unknown        20
//	result stored      engine  has ended                                           20
//	worker offered     worker  is run                                              20
//	worker running     worker  runs again with its key, or waits as unknown        20
//	worker started     worker  the same; killed as its tool begins                 20
//
// Other tests:
//
//	TestTwoWorkers       one of two workers killed during a run    20 kills; each attempt has one owner
//	TestInputsKilled     engine or worker killed, large inputs     2 kills in each of 8 cells; every tool reads its whole input
//	TestInterruptKilled  engine killed during an interrupt         20 kills; nothing begins afterwards
//	TestNATSKilled       external NATS killed, under load          20 kills; nothing acknowledged is lost
//	TestEngineKilled     one of two engines killed, under load     20 kills; the other one finishes all calls
//	TestAnythingKilled   NATS, an engine or a worker, under load   30 kills
//	TestFrozenWorker     SIGSTOP until given up, then SIGCONT      6 times; given up within lease + 1 s
//	TestFrozenEngine     the same with one of two engines          8 times; the other continues
//	TestFrozenAlone      the same with the only engine             4 times
//	TestRollingRestart   a cluster of three is restarted, its leader killed  no client sees an error, nothing is lost
//	TestFaults           2 seeded runs of 17 kinds of faults on a cluster of three  all replies have one order, nothing is lost
//	TestTryCluster       deploy/cluster/try.sh, a server killed  ready with two servers; Ctrl-C leaves no process
//	TestHungEngine       SIGSTOP of one of two engines for 17 s    the other answers and works as if alone
//	TestNoLeaveAfterHold a worker that asks late to start          refused, once the call is blocked
//	TestStoreFull        external NATS with a bounded store        refused with code full, nothing lost
//	TestDamagedJournal   the store of a stopped engine is damaged  20 ways, after a kill and a stop; refused until the loss is accepted, or nothing missing
//	TestLossUnderEngine  a server loses records of an engine       4 ways, while it runs and while it is stopped; it ends
//	TestDiskFull         writing fails under an engine             the same; the process continues when there is space
//
// TestCampaign runs two runtimes and two approvers as processes, with an external NATS,
// two engines and four workers, inputs of up to 60 KB, edits, responses of two people,
// interrupts and revocations. All of these processes are killed and frozen at random.
// It also checks that two people approved what needs two, and that no call began under
// a standing approval whose revocation was acknowledged. A failed run prints the name
// of its transcript: JSON lines with each strike, request and answer.
//
//	make campaign MINUTES=10            # a long run; it prints its seed
//	make campaign SEED=7 MINUTES=10     # the same strikes and the same requests
//	make campaign REPLAY=transcript     # the strikes and requests of a transcript
//
// In TestFaults four clients propose and respond, through engines and servers that are
// killed, stopped, cut off, split, delayed, out of disk space, too slow, or flooded.
// The history of each call is checked for linearizability (internal/lineartest). A
// failed run prints its seed, its faults and its history:
//
//	make faults                         # 10,000 runs in one process, 100 on a cluster
//	make faults CLUSTER_RUNS=1000       # takes a night
//	make faults SEED=7                  # the same faults and requests
//
// TestOneRequest is about people: one approval request is shown on six surfaces at once
// (the published AG-UI client, content blocks, AgentScope, the web inbox in Chromium,
// the terminal inbox, plain NATS). Each of them wins once, and one round has a kill. It
// needs Node with the packages of gateway/testdata/node, and Chromium.
//
// # Running
//
// Each test prints its seed. ASKANCE_E2E_SEED=n repeats its choices: tools, inputs, and
// what is killed when. The outcome can differ.
// ASKANCE_E2E_RACE=1 builds the command with the race detector.
// ASKANCE_E2E_INPUT_KILLS=n makes TestInputsKilled kill n times in each cell.
//
// No test needs special privileges. Where mounting is allowed, TestDiskFull fills
// small real file systems in addition to reaching a file size limit.
//
// # What it does not do
//
// The tests do not cut power: the kernel keeps the writes of a process that dies. Whether an
// acknowledged write is synced to the disk depends on the settings of the NATS server.
package e2e
