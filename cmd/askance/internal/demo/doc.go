// Package demo plays an incident: a scripted bot whose every tool call goes
// through a real engine, a real journal and a real worker process.
//
// Nothing in it is a mock but the model, whose words come from a recorded
// stream (package chatstream). The log that is read is a file, the command
// that counts is run by a shell, the refund is a line in a ledger file, written
// by a worker in another process that got its leave over NATS.
package demo
