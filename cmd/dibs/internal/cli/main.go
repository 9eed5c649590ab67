// Package cli is the command line: flags, help, and what is printed.
package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/cmd/dibs/internal/signals"
)

// Main runs dibs with these arguments and returns its exit status.
func Main(args []string) int {
	status := 0
	root := newRoot(&status, args)
	root.SetArgs(args)
	if err := written(root.Execute()); err != nil {
		if !exit.Silent(err) {
			exit.Say(os.Stderr, err.Error())
		}
		return exit.Status(err)
	}
	return status
}

// dealsWithSignals are the commands that do so by themselves.
var dealsWithSignals = []string{"run", "sweep"}

// commands are what there is, by name.
var commands = []struct {
	name string
	make func(status *int) *cobra.Command
}{
	{"run", newRun},
	{"ls", func(*int) *cobra.Command { return newList() }},
	{"break", func(*int) *cobra.Command { return newBreak() }},
	{"init", func(*int) *cobra.Command { return newInit() }},
	{"doctor", func(*int) *cobra.Command { return newDoctor() }},
	{"sweep", func(*int) *cobra.Command { return newSweep() }},
	{"version", func(*int) *cobra.Command { return newVersion() }},
}

// addCommands adds the command that is named first, alone: making the others would cost each start. Where none is, all are for the help.
func addCommands(root *cobra.Command, status *int, args []string) {
	for _, c := range commands {
		if len(args) > 0 && args[0] == c.name {
			root.CompletionOptions.DisableDefaultCmd = true
			root.AddCommand(c.make(status))
			return
		}
	}
	for _, c := range commands {
		root.AddCommand(c.make(status))
	}
}

func newRoot(status *int, args []string) *cobra.Command {
	var asked bool
	root := &cobra.Command{
		Use:           "dibs",
		Short:         "Let one process at a time work under a key, across machines",
		Long:          rootHelp,
		Example:       rootExamples,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			if !slices.Contains(dealsWithSignals, cmd.Name()) {
				signals.EndByEarly()
			}
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Errorf(exit.Usage, "there is no command %q: see dibs --help (to run a command: dibs run KEY -- COMMAND)", args[0])
			}
			if asked {
				return showVersion(cmd)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&asked, "version", false, "show the version, as dibs version does")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Errorf(exit.Usage, "%w: see %s --help", err, cmd.CommandPath())
	})
	addCommands(root, status, args)
	return root
}

// exactly is cobra.ExactArgs with a line that says what is missing.
func exactly(n int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return exit.Errorf(exit.Usage, "%s takes %s: see %s --help", cmd.CommandPath(), want, cmd.CommandPath())
		}
		return nil
	}
}

func atMost(n int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return exit.Errorf(exit.Usage, "%s takes %s: see %s --help", cmd.CommandPath(), want, cmd.CommandPath())
		}
		return nil
	}
}

// written gives an error of writing its status where the command line's library has written, to a full disk, say.
func written(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok && path.Op == "write" {
		return exit.With(exit.Failed, fmt.Errorf("writing the output: %w", err))
	}
	return err
}

// out writes what a command was asked for. Unlike a line on stderr, it must not get lost unseen.
func out(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return exit.With(exit.Failed, fmt.Errorf("writing the output: %w", err))
	}
	return nil
}
