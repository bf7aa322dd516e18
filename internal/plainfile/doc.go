// Package plainfile reads the files that operators name: policies, keys, tokens,
// settings. Such a file is a regular one, or a link to one. A named pipe would
// keep a server waiting for ever, a device has no end, and a folder is a slip;
// each is refused at once, by a [KindError] that says what it is. Nothing is read
// beyond what its reader can use.
//
// What a shell hands over under a number, as <(…) and /dev/stdin, may be a pipe
// where it is read once: [HandedOver], [ReadHanded], [OpenHanded].
package plainfile
