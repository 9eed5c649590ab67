package cli

import (
	"github.com/spf13/cobra"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
)

func run(*cobra.Command, *runFlags, []string) (int, error) {
	return 0, exit.Errorf(exit.Usage, "dibs run does not work on Windows: to stop COMMAND and all it has started in time takes POSIX process groups; "+
		"the other commands and the library do work")
}
