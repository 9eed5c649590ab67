// Command dibs lets one process at a time work under a key, across machines: dibs run KEY -- COMMAND.
package main

import (
	"os"

	"github.com/dibs-go/dibs/cmd/dibs/internal/cli"
)

// The guard of a running command is this same program, started again under another name. It never comes to main:
// see the init of package guard.
func main() { os.Exit(cli.Main(os.Args[1:])) }
