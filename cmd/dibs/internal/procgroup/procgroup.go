//go:build unix

// Package procgroup signals what a guard has started, its process group and whatever has left that group, and tells whether
// something of it lives.
package procgroup

import "syscall"

// Tree is the guard's process group, and all that descends from the guard and is still in its session: a command may give itself, or what it
// starts, groups of their own (timeout, shells with job control), and only by a session of its own (setsid) does a process say that it is to live on.
//
// Where the system does not tell who descends from whom, it is the group, and COMMAND's own group if COMMAND has made itself one.
type Tree struct {
	// Group is the guard's pid. Whoever has started the guard has not waited for it yet, so that the number is nobody else's.
	Group int
	// Heir is the process that adopts what the guard leaves behind when it dies, 0 if that is none of the caller's business.
	Heir Heir
	// Command is COMMAND's pid while it was not waited for, else 0.
	Command int

	memory
}

// Signal sends the signals to all of the tree but for what runs under another dibs in it: that one gets them, and passes them on.
func (t *Tree) Signal(sigs ...syscall.Signal) {
	// Found before anybody hears of the signal: what is started because of it, to clean up, is to do its work. Those of a terminal start nothing,
	// and a CONT that comes late would fall into the next stop.
	prompt := len(sigs) == 1 && (sigs[0] == syscall.SIGCONT || sigs[0] == syscall.SIGTSTP || sigs[0] == syscall.SIGWINCH)
	var others []process
	if !prompt {
		others = t.outsiders()
	}
	own := t.commandsGroup()
	for _, sig := range sigs {
		t.SignalGroup(sig)
		if own != 0 {
			signal(-own, sig)
		}
	}
	if prompt {
		others = t.outsiders()
	}
	for _, p := range others {
		for _, sig := range sigs {
			p.signal(sig)
		}
	}
}

// SignalGroup sends a signal to the group alone, as a terminal does.
func (t *Tree) SignalGroup(sig syscall.Signal) { signal(-t.Group, sig) }

// Terminate asks all to end. CONT goes with it, because a stopped process does not even learn of a TERM.
func (t *Tree) Terminate() { t.Signal(syscall.SIGTERM, syscall.SIGCONT) }

// Kill kills all. It does not return in the guard, which is in the group itself.
func (t *Tree) Kill() {
	if syscall.Getpgrp() != t.Group {
		t.SignalGroup(syscall.SIGKILL)
	}
	if own := t.commandsGroup(); own != 0 {
		signal(-own, syscall.SIGKILL)
	}
	t.killMembers()
	t.SignalGroup(syscall.SIGKILL)
}

// commandsGroup is the group that COMMAND has made itself, or 0. Asked for only where it is all there is to go by.
func (t *Tree) commandsGroup() int {
	if t.Command == 0 || tells() {
		return 0
	}
	if pgid, err := syscall.Getpgid(t.Command); err == nil && pgid == t.Command && pgid != t.Group {
		return pgid
	}
	return 0
}

func signal(pid int, sig syscall.Signal) {
	// An error tells that nobody is there, or nobody whom we may signal: neither can be helped here, and
	// Alive shows what is left.
	_ = syscall.Kill(pid, sig)
}
