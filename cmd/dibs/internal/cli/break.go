package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/dibsdriver"
)

// breakFlags are the flags of dibs break.
type breakFlags struct {
	storeFlags
	token    tokenFlag
	now, yes bool
}

func newBreak() *cobra.Command {
	var f breakFlags
	cmd := &cobra.Command{
		Use:   "break KEY",
		Short: "Take KEY away from who holds it",
		Long: `Ends somebody's lease. It is not renewed any more, so the key passes on when it expires; a living holder notices at its next
renewal, and its command is stopped in time. With --now the key is free at once: that is for holders that are known to be dead,
since a living one works on beside the next until it notices. Its dibs run ends with status 80 in any case, also where COMMAND
ends by itself before that.

A lock that nobody renews any more, since it was broken before or let go within its --min-hold, stays as it is without --now.

Only the acquisition that was shown is broken. If another has taken the key by then, nothing happens, and the status is 1.`,
		Example: `  dibs break nightly                      # shows who holds it, and asks
  dibs break nightly --yes --token 1730000000000000
  dibs break nightly --now                # the holder is known to be dead`,
		Args: exactly(1, "one KEY"),
		RunE: func(cmd *cobra.Command, args []string) error { return breakKey(cmd, &f, args[0]) },
	}
	f.add(cmd.Flags())
	cmd.Flags().Var(&f.token, "token", "break only the acquisition with this `TOKEN` (dibs ls shows it)")
	cmd.Flags().BoolVar(&f.now, "now", false, "free the key at once, not when its lease expires")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	return cmd
}

func breakKey(cmd *cobra.Command, f *breakFlags, key string) error {
	if err := wrongKey(key); err != nil {
		return err
	}
	token := int64(f.token)
	o, err := f.open(&dibs.Config{})
	if err != nil {
		return err
	}
	defer o.close(closeLimit)
	info, held, err := holder(cmd.Context(), o, key)
	switch {
	case err != nil:
		return err
	case !held:
		return exit.Errorf(exit.Failed, "%q is not held by anybody on %s", key, o.Name)
	case token > 0 && (token < info.Token || token >= info.Token+dibsdriver.TokenStep):
		return exit.Errorf(exit.Failed, "%q is held with another token than %d: %s; nothing was broken", key, token, describe(info))
	case info.Ending && !f.now:
		return out(cmd.OutOrStdout(), exit.Printable(fmt.Sprintf("%q: %s; nobody renews it any more (it was broken before, or let go within its --min-hold), so nothing was changed: "+
			"it is free in %s; --now frees it at once", key, describe(info), round(info.ExpiresIn)))+"\n")
	case !f.yes && !term.IsTerminal(int(os.Stdin.Fd())):
		return exit.Errorf(exit.Usage, "%q is %s; there is no terminal to ask on: give --yes to break it without being asked", key, describe(info))
	}
	if !f.yes && !confirmed(info, f.now) {
		return exit.Errorf(exit.Failed, "%q was left as it is", key)
	}
	broken, err := breakLock(cmd.Context(), o, info, f.now)
	if err != nil {
		return err
	}
	then := fmt.Sprintf("it is free in %s at the latest", round(broken.ExpiresIn))
	if f.now {
		then = "it is free now"
	}
	return out(cmd.OutOrStdout(), exit.Printable(fmt.Sprintf("broke %q: %s; %s", key, describe(broken), then))+"\n")
}

// breakLock breaks exactly the acquisition that was shown.
func breakLock(ctx context.Context, o *opened, shown dibs.Info, now bool) (dibs.Info, error) {
	end := o.Break
	if now {
		end = o.BreakNow
	}
	info, err := end(ctx, shown.Key, shown.Token)
	busy, isBusy := errors.AsType[*dibs.BusyError](err)
	switch {
	case isBusy:
		return info, exit.Errorf(exit.Failed, "%q has passed to another meanwhile: %s; nothing was broken", shown.Key, describe(busy.Holder))
	case errors.Is(err, dibs.ErrReleased):
		return info, exit.Errorf(exit.Failed, "%q has become free meanwhile; nothing was broken", shown.Key)
	case err != nil:
		return info, o.fail(err)
	}
	return info, nil
}

func confirmed(info dibs.Info, now bool) bool {
	how := "It passes on when its lease expires."
	if now {
		how = "It is free at once, even if its holder is still at work."
	}
	fmt.Fprintf(os.Stderr, "%s\n%s\nBreak it? [y/N] ", exit.Printable(fmt.Sprintf("%q: %s", info.Key, describe(info))), how)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n') // no answer is a no
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

func describe(i dibs.Info) string {
	s := "held by " + i.Holder
	if i.Note != "" {
		s += fmt.Sprintf(" (%s)", i.Note)
	}
	if !i.Since.IsZero() {
		s += " since " + i.Since.UTC().Format(time.RFC3339)
	}
	return s + fmt.Sprintf(", token %d, %s left", i.Token, round(i.ExpiresIn))
}

// tokenFlag is a fencing token (a pflag.Value); 0 if none was given.
type tokenFlag int64

// Type is what the help calls the value.
func (t *tokenFlag) Type() string { return "TOKEN" }

func (t *tokenFlag) String() string { return strconv.FormatInt(int64(*t), 10) }

// Set reads a token.
func (t *tokenFlag) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("%q is no token: tokens are numbers above 0, and dibs ls shows them", s)
	}
	*t = tokenFlag(n)
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
