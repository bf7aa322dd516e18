// Package approve takes the responses of people to open approval requests.
//
// [Responses.Take] passes a response through the ordered list of checks and moves
// its call: approved and begun, asked again after an edit, or finished. All of it is
// decided from the call's last event record and written by compare-and-swap. What
// time does to an open approval request is here as well: escalation, deadline, reminders.
package approve
