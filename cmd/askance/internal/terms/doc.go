// Package terms reads the terms on which people want an answer remembered, as
// they write them on a command line or in the inbox.
package terms
