// Package paths compares file paths without touching files: cleaned, by whole
// segments, and never by how their texts begin.
//
//	ok, err := paths.Within("/srv/app/../secrets/k", "/srv/app") // false
//
// It refuses what programs read in several ways: NUL and other control
// characters, backslashes, a leading "~". A relative path names a file only
// together with a folder; see [Join].
//
// Cleaning is textual. Where a folder on the way is a symbolic link, "a/../b"
// and the file system may disagree, and a path inside a folder may lead out of
// it; who prepares a request resolves links before.
package paths
