// Package inbox is the web inbox: the open approval requests of a space in a browser,
// each with what its answer binds, and the means to answer it.
//
//	gateway.New(gateway.Config{Surfaces: []gateway.Surface{inbox.New()}, …})
//
// Pages are made on the server (html/template) and work without a script for
// looking, approving and rejecting. A small script of our own makes them live:
// a stream of server-sent events says that something has changed, the script
// asks for the same page again and exchanges what differs. INBOX.md is for
// users.
//
// # Guarantees
//
//   - What strangers wrote (arguments, names, reasons, output) is text, never
//     markup, and characters that mislead are visible (internal/reveal).
//   - An answer carries the digest of the approval request that was on the page. If the
//     approval request has been resolved or asked anew meanwhile, nothing is sent on and
//     the page says who was first and how.
//   - Before an approval request is shown for an answer, its digest is computed from what
//     is shown.
//   - The pages load nothing from elsewhere and run nothing inline: the content
//     security policy allows our own files only.
//
// # What it does not do
//
// It keeps nothing but the last progress lines of running calls, in memory. Who
// somebody is, and whether a request that changes something came from one of
// these pages, is checked by package gateway.
package inbox
