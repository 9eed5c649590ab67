package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/dibs-go/dibs/cmd/dibs/internal/durations"
	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
)

const (
	maxTTL       = 24 * time.Hour
	maxKey       = 255
	maxNote      = 1024
	maxKillAfter = 5 * time.Second // the default, where the TTL allows it
)

// runFlags are the flags of dibs run.
type runFlags struct {
	storeFlags
	wait, ttl, maxHold, minHold, killAfter durations.Value

	once       bool
	busyStatus statusFlag
	note       string

	key     string
	command []string
}

func (f *runFlags) add(cmd *cobra.Command) {
	f.wait = durations.Value{D: durations.Never, Word: "forever"}
	f.ttl = durations.Value{D: 30 * time.Second, NotZero: "there is no lock without an end", Max: maxTTL}
	f.minHold = durations.Value{Max: maxTTL}
	f.killAfter = durations.Value{Max: killRoom(maxTTL)}
	f.busyStatus = exit.Busy
	f.maxHold = durations.Value{D: durations.Never, Word: "none", NotZero: `0 would stop COMMAND at once: write "none" for no limit`}

	fs := cmd.Flags()
	fs.SetInterspersed(false) // flags end at KEY: what follows is COMMAND's
	fs.VarP(&f.wait, "wait", "w", "how long to wait for KEY: a time, or \"forever\"")
	fs.BoolVarP(&f.once, "no-wait", "n", false, "do not wait: the same as --wait 0")
	fs.Var(&f.ttl, "ttl", "how long the lease lasts without renewal: when this machine dies, KEY is free after that time")
	fs.Var(&f.maxHold, "max-hold", "stop COMMAND when it takes longer than this, with status 81; \"none\" for no limit")
	fs.Var(&f.minHold, "min-hold", "keep KEY taken for at least this long, so that a quick job does not run again on a machine whose clock is behind")
	fs.Var(&f.killAfter, "kill-after", "the time between TERM and KILL when COMMAND has to be stopped (default: the smaller of 5s and a third of the TTL less its margin)")
	fs.Var(&f.busyStatus, "busy-status", "the `STATUS` to end with when KEY is busy; with --quiet the line about it is left out then, too")
	fs.StringVar(&f.note, "note", "", "a `TEXT` that shows others what KEY is held for")
	f.storeFlags.add(fs)
	fs.SortFlags = false
}

// settle reads the arguments and finds what does not fit together, before anything is asked or run.
func (f *runFlags) settle(cmd *cobra.Command, args []string) error {
	wrong := func(format string, args ...any) error { return exit.Errorf(exit.Usage, format, args...) }
	if len(args) == 0 {
		return wrong("KEY and COMMAND are missing: dibs run [flags] KEY -- COMMAND [ARG...]")
	}
	f.key, f.command = args[0], args[1:]
	dashes := len(f.command) > 0 && f.command[0] == "--"
	if dashes {
		f.command = f.command[1:]
	}
	if cmd.ArgsLenAtDash() == 0 && !dashes {
		// In dibs run $UNSET -- COMMAND ARG the words would be taken for others than they are.
		return wrong("-- comes before KEY, and none after it: is a variable of your script not set? Write dibs run [flags] KEY -- COMMAND [ARG...], " +
			"and dibs run [flags] -- KEY -- COMMAND [ARG...] if KEY begins with -")
	}
	given := cmd.Flags().Changed
	if f.once && given("wait") {
		return wrong("-n and --wait contradict each other: -n is the same as --wait 0, so leave one out")
	}
	if f.once {
		f.wait.D = 0
	}
	switch {
	case wrongKey(f.key) != nil:
		return wrongKey(f.key)
	case len(f.command) == 0:
		return wrong("COMMAND is missing: dibs run [flags] KEY -- COMMAND [ARG...]")
	case !dashes && strings.HasPrefix(f.command[0], "-"):
		return wrong("%s comes after KEY, where COMMAND begins: put flags before KEY (or -- before a command of that name)", f.command[0])
	case f.command[0] == "":
		return wrong("COMMAND is an empty word")
	case len(f.note) > maxNote || !utf8.ValidString(f.note):
		return wrong("--note must be valid UTF-8 of at most %d bytes", maxNote)
	}
	return f.settleTimes(given("kill-after"))
}

// wrongKey is an error if there can be no such key.
func wrongKey(key string) error {
	switch {
	case key == "":
		return exit.Errorf(exit.Usage, "KEY is empty: it is what is locked, 1 to %d bytes", maxKey)
	case !utf8.ValidString(key):
		return exit.Errorf(exit.Usage, "KEY %q is not valid UTF-8", key)
	case len(key) > maxKey:
		return exit.Errorf(exit.Usage, "KEY has %d bytes, and at most %d are possible: %.40q...", len(key), maxKey, key)
	}
	return nil
}

func (f *runFlags) settleTimes(killAfterGiven bool) error {
	wrong := func(format string, args ...any) error { return exit.Errorf(exit.Usage, format, args...) }
	ttl, room := f.ttl.D, killRoom(f.ttl.D)
	switch {
	case ttl > maxTTL:
		return wrong("--ttl %s: at most %s is possible; the lease is renewed while COMMAND runs, so it need not cover COMMAND", ttl, maxTTL)
	case room < 0:
		return wrong("--ttl %s is too short to stop COMMAND in time: take 100ms or more", ttl)
	case f.minHold.D > maxTTL:
		return wrong("--min-hold %s: at most %s is possible", f.minHold.D, maxTTL)
	case f.maxHold.D != durations.Never && f.maxHold.D < f.minHold.D:
		return wrong("--max-hold %s is shorter than --min-hold %s: raise the one or lower the other", f.maxHold.D, f.minHold.D)
	case killAfterGiven && f.killAfter.D > room:
		return wrong("--kill-after %s does not fit into --ttl %s, where KILL could come after the lease has passed on: take at most %s, or raise --ttl to %s or more",
			f.killAfter.D, ttl, room, ttlFor(f.killAfter.D))
	}
	if !killAfterGiven {
		f.killAfter.D = min(maxKillAfter, room)
	}
	return nil
}

// margin is the library's default margin for a TTL: how much before its end a lease is not believed in any more.
func margin(ttl time.Duration) time.Duration {
	return min(max(ttl/10, 10*time.Millisecond), max(time.Second, ttl/1000))
}

// killRoom is the longest time between TERM and KILL. The lease is renewed at a third of its TTL and, if that fails, again before TERM is due:
// so a single failed renewal stops nothing.
func killRoom(ttl time.Duration) time.Duration {
	return (ttl/3 - margin(ttl)).Truncate(time.Millisecond)
}

// ttlFor is a round TTL that has room for killAfter.
func ttlFor(killAfter time.Duration) fmt.Stringer {
	ttl := time.Second
	for killRoom(ttl) < killAfter && ttl < maxTTL {
		ttl += time.Second
	}
	return ttl
}

// statusFlag is an exit status (a pflag.Value).
type statusFlag int

// Type is what the help calls the value.
func (s *statusFlag) Type() string { return "STATUS" }

func (s *statusFlag) String() string { return strconv.Itoa(int(*s)) }

// Set reads a status.
func (s *statusFlag) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return fmt.Errorf("%q is no exit status: write a number from 0 to 255", text)
	}
	*s = statusFlag(n)
	return nil
}
