// Command askance stands between AI agents and their tools: it decides by
// policy which tool calls run, asks people about the rest, runs what was
// allowed exactly once, and keeps a proof of every step.
//
// Start with:
//
//	askance demo
package main

import (
	"os"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
)

func main() { os.Exit(cli.Process(os.Args[1:])) }
