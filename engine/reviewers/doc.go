// Package reviewers folds a journal into what each reviewer has to do and what
// they have done: open approval requests, answers, how long they took, how many were
// approvals, and how many came sooner than one can read. It also holds the
// limits of reviewers, which bound how much one person answers and is given.
//
// A [Ledger] is fed with event records; what it says is a function of them alone. Its
// memory is bounded by the number of open approval requests, and for people and groups
// by [MaxNames]: times are kept in logarithmic buckets, from which the median
// follows to within five per cent. The latest [MaxLog] answers are kept one by
// one, so that windows can be asked for; [Read] folds a journal for a window that
// reaches further back.
//
// An approval request's clock begins with the fact that asks it; asked again, it begins
// again. A vote counts once, however often its event record arrives. A vote on a
// approval request that the ledger never saw open does not count.
package reviewers
