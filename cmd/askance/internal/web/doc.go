// Package web is the HTTP side of askance serve: a listener, who is let in, and
// the surfaces that are served. surfaces.go lists them.
package web
