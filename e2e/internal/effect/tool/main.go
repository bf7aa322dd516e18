// Command tool runs package effect as a program.
package main

import (
	"os"

	"github.com/askance-dev/askance/e2e/internal/effect"
)

func main() { os.Exit(effect.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
