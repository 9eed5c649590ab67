//go:build unix

package runner

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the one that controls this session. All methods do nothing on nil: there is no terminal, as under cron.
type terminal struct {
	fd    int
	given bool // a command's group has it
}

func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd}
}

// foregroundJob tells whether the command should have the terminal from the beginning, as it would without dibs: an interactive shell
// has started this process as a job of its own. In a script or a pipeline others have a claim to the terminal too (the shell
// to its Ctrl-C, a pager to its keys); there the command gets it when it first asks for it, see pause.
func (t *terminal) foregroundJob() bool {
	return t.ours() && syscall.Getpgrp() == os.Getpid() && term.IsTerminal(0) && term.IsTerminal(1)
}

// ours tells whether this process is in the terminal's foreground.
func (t *terminal) ours() bool {
	if t == nil {
		return false
	}
	pgid, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && pgid == syscall.Getpgrp()
}

// give moves a group to the terminal's foreground.
func (t *terminal) give(pgid int) {
	t.given = t.foreground(pgid)
}

// takeBack moves this process to the foreground again, if a command's group was given it.
func (t *terminal) takeBack() {
	if t != nil && t.given {
		t.foreground(syscall.Getpgrp())
		t.given = false
	}
}

func (t *terminal) foreground(pgid int) bool {
	// Who does this from the background is stopped, unless it ignores the signal. COMMAND's guard runs already, so that nobody inherits this.
	signal.Ignore(syscall.SIGTTOU)
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgid) == nil
}

func (t *terminal) close() {
	if t != nil {
		t.takeBack()
		unix.Close(t.fd)
	}
}
