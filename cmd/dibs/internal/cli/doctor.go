package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/cmd/dibs/internal/storeurl"
	"github.com/dibs-go/dibs/dibsdriver"
)

// examineLimit bounds all checks together.
const examineLimit = 30 * time.Second

func newDoctor() *cobra.Command {
	var store storeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the store, and explain what is wrong with it",
		Long: `Looks at all that locks depend on, and says what it found and what to do about it:

  ok        it is as it should be
  warning   locks work, but it costs something, is a danger in special cases, or could not be looked at
  fault     locks do not work, or what is promised of them does not hold

It changes nothing that stays, takes no lock, and needs no more rights than dibs run; what it may not see is a warning. One thing that is wrong does not keep it from
the others, except where the store cannot be reached.

On MySQL and MariaDB it looks at: the connection, the version, the database, autocommit, whether the server takes writes and is a replica, Galera
and Group Replication, whether the address leads to one server, the clock beside this machine's, the settings of its sessions (time zone, SQL mode,
isolation, wait_timeout and others), what a crash of the server may lose, how many connections there are, the tables with their columns and indexes, and the rights.
Settings that stand in the URL (?wait_timeout=30) count, as they do for dibs run.

On SQLite: the file, its folder and the rights to them, the file system and the space on it, the tables, the journal, whether the file is whole and takes
writes, and how many keys are held. It does not make the file.

Exit status:
   0   no fault (warnings do not count)
   1   a fault; one line on stderr names the checks
  64   wrong usage or configuration: nothing was looked at`,
		Example: `  dibs doctor                            # the store that dibs run would use here
  dibs doctor --store-file /etc/dibs/store
  dibs doctor --json | jq '.[] | select(.level != "ok")'`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := store.find()
			if err != nil {
				return err
			}
			findings, err := examine(cmd.Context(), s, store.local)
			if err != nil {
				return err
			}
			if asJSON {
				err = outJSON(cmd, findingList(findings))
			} else {
				err = out(cmd.OutOrStdout(), findingTable(findings))
			}
			return errors.Join(err, verdict(s, findings))
		},
	}
	store.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// examine asks the store's driver, in words for users of the command.
func examine(ctx context.Context, s *storeurl.Store, local bool) ([]dibsdriver.Finding, error) {
	findings := []dibsdriver.Finding{named(s, local)}
	d, err := s.Open()
	if err != nil {
		if exit.Status(err) != exit.Unavailable {
			return nil, err
		}
		// What does not let the store be opened is what one wants to hear from a doctor.
		text := s.WithoutName(strings.ReplaceAll(err.Error(), "dibs: ", ""))
		found, advice, _ := strings.Cut(text, "; ")
		return append(findings, dibsdriver.Finding{Check: "open", Level: dibsdriver.LevelFault, Found: s.Words(found), Advice: s.Words(advice)}), nil
	}
	defer d.Close()
	doctor, can := d.(dibsdriver.Doctor)
	if !can {
		return nil, exit.Errorf(exit.Usage, "dibs cannot examine a store of this kind yet (%s): dibs init checks whether it can be used", s.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	for _, f := range doctor.Examine(ctx) {
		f.Found, f.Advice = s.Words(f.Found), s.Words(f.Advice)
		findings = append(findings, f)
	}
	return findings, nil
}

// named says which store it is, and who says so.
func named(s *storeurl.Store, local bool) dibsdriver.Finding {
	f := dibsdriver.Finding{Check: "store", Found: s.Name}
	switch {
	case !s.Default:
		f.Found += " (from " + s.From + ")"
	case local:
		f.Found += ", which is for this machine and this user only"
	default:
		f.Level = dibsdriver.LevelWarning
		f.Found += ", since no store is configured: locks hold on this machine and for this user only"
		f.Advice = "name the store by --store, by " + storeurl.EnvVar + " or in " + storeurl.SystemFile() + "; or give --local if this is what you want"
	}
	return f
}

// findingJSON is a finding as --json shows it. Its names are part of the command's contract.
type findingJSON struct {
	Check  string `json:"check"`
	Level  string `json:"level"`
	Found  string `json:"found"`
	Advice string `json:"advice"`
}

func findingList(findings []dibsdriver.Finding) []findingJSON {
	list := make([]findingJSON, 0, len(findings))
	for _, f := range findings {
		list = append(list, findingJSON{f.Check, f.Level.String(), f.Found, f.Advice})
	}
	return list
}

// findingTable has what to do in a line of its own, since both texts are long.
func findingTable(findings []dibsdriver.Finding) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CHECK\tLEVEL\tFOUND")
	for _, f := range findings {
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Check, f.Level, exit.Printable(f.Found))
		if f.Advice != "" {
			fmt.Fprintf(t, "\t\twhat to do: %s\n", exit.Printable(f.Advice))
		}
	}
	t.Flush()
	return b.String()
}

// verdict is an error if there is a fault.
func verdict(s *storeurl.Store, findings []dibsdriver.Finding) error {
	var checks []string
	n := 0
	for _, f := range findings {
		if f.Level != dibsdriver.LevelFault {
			continue
		}
		n++
		if len(checks) == 0 || checks[len(checks)-1] != f.Check {
			checks = append(checks, f.Check)
		}
	}
	switch n {
	case 0:
		return nil
	case 1:
		return exit.Errorf(exit.Failed, "%s has a fault: %s", s.Name, checks[0])
	}
	return exit.Errorf(exit.Failed, "%s has %d faults: %s", s.Name, n, strings.Join(checks, ", "))
}
