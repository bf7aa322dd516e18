// Package script is an agent without a model: it does what the lines of the user's message say.
// It shows how a surface handles approval requests, results and errors, in a demonstration and in
// tests.
//
//	think I should look first.
//	say I pay them both.
//	call pay {"to":"acme","amount":42}
//	also pay {"to":"initech","amount":7}
//	stream 20 100
//
// The lines are
//
//	say TEXT          a text block
//	think TEXT        a thinking block
//	stream N [MS]     a text block of N pieces, MS milliseconds apart
//	call TOOL [JSON]  a tool call; the lines also TOOL [JSON] below it run next to
//	                  it; then a text block with their results
//	fail TYPE TEXT    the reply ends with that error
//	panic             the agent panics
//	loop              the agent has called its model too often
//	wait              the agent waits until it is interrupted
//
// A message without any of them gets this list as its answer. The reply depends only on the
// message, so a turn that was cut off continues where it stopped.
package script
