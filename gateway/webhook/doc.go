// Package webhook tells programs elsewhere of approval requests and outcomes: each
// destination gets them by HTTP POST, signed by the scheme of Standard Webhooks,
// tried again over hours, and kept as dead letters when nothing helped. Messages
// about an approval request carry links by which a person comes to the inbox with the
// decision prepared.
//
//	links, err := webhook.NewLinks(webhook.LinksConfig{…})
//	hooks, err := webhook.New(webhook.Config{Space: space, Outbox: outbox, Destinations: destinations, Links: links})
//	// hooks is a gateway.Background: hand it to gateway.New; hand links to the inbox.
//
// # Guarantees
//
//   - At least once, under an id that stays the same over retries, restarts and
//     several gateways: webhook-id. What is due is kept by the Outbox, never by
//     this process.
//   - What rules redact never leaves. Secrets and addresses of destinations stand
//     in no log, no error and no dead letter.
//   - An approval request that is resolved, or was asked anew, is not sent late.
//   - A link decides nothing by being opened, names nobody, and is used once in
//     the whole space: whoever follows it must be logged in, may answer or not by
//     their own name, and confirms.
//   - Redirections are not followed.
//
// # What it does not do
//
// Order: what was refused once may come after what happened later; seq in the
// message says in which order things happened.
package webhook
