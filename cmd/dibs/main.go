// Command dibs lets one process at a time work under a key, across machines: dibs run KEY -- COMMAND.
package main

import (
	"os"

	"github.com/dibs-go/dibs/cmd/dibs/internal/cli"
	"github.com/dibs-go/dibs/cmd/dibs/internal/guard"
)

func main() {
	// The guard of a running command is this same program, started again under another name: it must
	// neither parse flags nor open a store.
	if guard.Is(os.Args) {
		os.Exit(guard.Main(os.Args))
	}
	os.Exit(cli.Main(os.Args[1:]))
}
