// Package urls reads URLs the way a policy must: so that every program that
// opens the URL goes to the host that the policy has judged.
//
// Programs disagree about odd URLs. "http://good.example\@evil.example" leads a
// browser to one host and a library to another. [Parse] therefore refuses what
// is read in more than one way, instead of picking a reading: white space,
// control characters, backslashes, percent signs in the host, more than one @,
// numbers that only look like IPv4 addresses, names whose international form
// has two readings. What is left has one form: lower case, punycode, no
// trailing dot, the shortest IPv6 form, an IPv4 address where IPv6 wraps one,
// and the port written out. What only the path has against it is said by
// [URL.Path] alone.
//
//	u, err := urls.Parse("https://EXAMPLE.com.:443/a/../b")
//	u.Host, u.Port // "example.com", 443
//	u.Path()       // "/b"
//
// [Hosts] is a list of hosts to compare with, [URL.Within] compares with a
// base URL by whole path segments.
//
// The package resolves no names: a host that is not on a list may still have
// the address of one that is.
package urls
