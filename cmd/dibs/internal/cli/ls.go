package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
)

func newList() *cobra.Command {
	var store storeFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls [PREFIX]",
		Aliases: []string{"list"},
		Short:   "Show who holds what",
		Long: `Shows the keys that are held now (those that begin with PREFIX), who holds them, since when, and when their leases end.
A living holder renews its lease, so EXPIRES IN begins anew every third of the TTL;
"not renewed" beside it is a lock that was broken, or that was let go within its --min-hold, and ends then.

What is not printable in keys, holders and notes is shown escaped; --json has it exactly.`,
		Args: atMost(1, "one PREFIX at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := store.open(&dibs.Config{})
			if err != nil {
				return err
			}
			defer o.close(closeLimit)
			locks, err := o.Locks(cmd.Context(), strings.Join(args, ""))
			if err != nil {
				return o.fail(err)
			}
			if asJSON {
				return outJSON(cmd, lockList(locks))
			}
			return out(cmd.OutOrStdout(), lockTable(locks))
		},
	}
	store.add(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// lockJSON is a lock as --json shows it. Its names are part of the command's contract.
type lockJSON struct {
	Key       string  `json:"key"`
	Holder    string  `json:"holder"`
	Note      string  `json:"note"`
	Token     int64   `json:"token"`
	Since     *string `json:"since"` // null where the store does not tell
	ExpiresIn float64 `json:"expires_in_seconds"`
	Ending    bool    `json:"ending,omitempty"` // nobody renews it any more
}

func lockList(locks []dibs.Info) []lockJSON {
	list := make([]lockJSON, 0, len(locks)) // not nil: an empty list is [], not null
	for _, l := range locks {
		j := lockJSON{Key: l.Key, Holder: l.Holder, Note: l.Note, Token: l.Token, ExpiresIn: math.Round(l.ExpiresIn.Seconds()*1000) / 1000, Ending: l.Ending}
		if !l.Since.IsZero() {
			since := l.Since.UTC().Format(time.RFC3339)
			j.Since = &since
		}
		list = append(list, j)
	}
	return list
}

func lockTable(locks []dibs.Info) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tHOLDER\tSINCE\tEXPIRES IN\tTOKEN\tNOTE")
	for _, l := range locks {
		since := "-"
		if !l.Since.IsZero() {
			since = l.Since.UTC().Format(time.RFC3339)
		}
		left := l.ExpiresIn.Round(100 * time.Millisecond).String()
		if l.Ending {
			left += ", not renewed"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\n", exit.Printable(l.Key), exit.Printable(l.Holder), since,
			left, l.Token, exit.Printable(l.Note))
	}
	t.Flush()
	return b.String()
}

func outJSON(cmd *cobra.Command, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	return out(cmd.OutOrStdout(), b.String())
}

// holder is who holds the key, or false.
func holder(ctx context.Context, o *opened, key string) (dibs.Info, bool, error) {
	locks, err := o.Locks(ctx, key)
	if err != nil {
		return dibs.Info{}, false, o.fail(err)
	}
	for _, l := range locks {
		if l.Key == key {
			return l, true, nil
		}
	}
	return dibs.Info{}, false, nil
}
