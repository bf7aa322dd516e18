// Package display makes texts from rules and inputs fit to be shown to people:
// bounded, on one line, and without characters that a person cannot see.
package display
