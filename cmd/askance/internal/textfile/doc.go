// Package textfile reads the small files that operators write: tools, webhooks,
// people, settings. They are regular files, read whole and bounded. YAML is read strictly, and
// of exactly one document, so that nothing in a file is passed over; a fault is
// an [Error] with file, line and column.
package textfile
