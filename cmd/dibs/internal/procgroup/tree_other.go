//go:build unix && !linux

package procgroup

import "syscall"

// Heir is the process that adopts what the guard leaves behind. There is none here.
type Heir struct{}

// NewHeir makes nothing.
func NewHeir(int) Heir { return Heir{} }

// AdoptOrphans does nothing: it cannot be done.
func AdoptOrphans() {}

// memory is what a tree knows of the last time.
type memory struct{}

// process is one that was found. None is here.
type process struct{}

func (process) signal(syscall.Signal) {}

func tells() bool { return false }

func (t *Tree) outsiders() []process { return nil }

func (t *Tree) killMembers() {}

// Escaped are the pids of those that live in sessions of their own. None is known of.
func (t *Tree) Escaped() []int { return nil }

// Alive tells whether a process of the tree other than the caller lives. An error of kill(2) is the only thing to go by, and while
// the caller is in the group itself that says nothing.
func (t *Tree) Alive() (alive, known bool) {
	if syscall.Getpgrp() == t.Group {
		return false, false
	}
	if own := t.commandsGroup(); own != 0 && syscall.Kill(-own, 0) == nil {
		return true, true
	}
	return syscall.Kill(-t.Group, 0) == nil, true
}
