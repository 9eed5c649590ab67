package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
)

func newInit() *cobra.Command {
	var store storeFlags
	var show bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the store's tables",
		Long: `Makes the tables that the store needs, and checks that it can be used. SQLite makes its tables by itself, so there this is
only a check. With --print the statements are printed and nothing is done, for those who run them with their own tools.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if show {
				s, err := store.find()
				if err != nil {
					return err
				}
				return out(cmd.OutOrStdout(), s.Schema())
			}
			o, err := store.open(&dibs.Config{})
			if err != nil {
				return err
			}
			defer o.close(closeLimit)
			if err := o.Ping(cmd.Context()); err != nil {
				return storeError(err)
			}
			return out(cmd.OutOrStdout(), exit.Printable(fmt.Sprintf("%s is ready", o.Name))+"\n")
		},
	}
	store.add(cmd.Flags())
	cmd.Flags().BoolVar(&show, "print", false, "print the statements, and do nothing")
	return cmd
}
