package cli

import (
	"github.com/spf13/cobra"
)

func newRun(status *int) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:     "run [flags] KEY [--] COMMAND [ARG...]",
		Short:   "Take KEY, run COMMAND, release KEY",
		Long:    runHelp,
		Example: runExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			*status, err = run(cmd, &f, args)
			return err
		},
		DisableFlagsInUseLine: true,
	}
	f.add(cmd)
	return cmd
}
