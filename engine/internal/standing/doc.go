// Package standing is what approvers let answer for later calls: standing approvals
// with a scope, an end and a number of uses, and the suggested rules that an answer
// accepted as they are.
//
// [Approvals] completes and checks what an approver wants remembered, makes the
// rule when the call is allowed, and lets it answer for later calls. A use is on
// record before anything is allowed by it. What cannot be read or written allows
// nothing: a person is asked.
package standing
