package procgroup

import (
	"syscall"
	"time"
)

const (
	// looks bounds how often processes are looked for, while each time there are new ones.
	looks = 20
	// still is how many looks in a row must find nothing new: one alone can miss a process whose parent ends at that moment.
	still = 2
	// enough is how long those are looked for who are to get a signal: where many processes run each look takes its time, and the signal is to
	// come soon. What was missed gets KILL, if KILL follows.
	enough = 50 * time.Millisecond
)

// memory is what a tree knows of the last time.
type memory struct {
	found  []process // at the last look
	living process   // one that lived when it was last asked
}

// Heir is the process that adopts what the guard leaves behind.
type Heir struct {
	Pid int
	// spare are children that it had before there was a guard: they are nobody's business.
	spare []process
}

// NewHeir makes the calling process one, before it starts the guard.
func NewHeir(self int) Heir {
	h := Heir{Pid: self}
	if !hasChildren() {
		return h
	}
	for _, p := range snapshot() {
		if p.parent == self {
			h.spare = append(h.spare, p)
		}
	}
	return h
}

func (h Heir) spares(p process) bool {
	for _, s := range h.spare {
		if s.is(p) {
			return true
		}
	}
	return false
}

// members are the living processes of the tree, but for the caller, and those that have escaped from it to sessions of their own.
// known is false where /proc does not tell.
func (t *Tree) members() (in, escaped []process, known bool) {
	all := snapshot()
	if all == nil {
		return nil, nil, false
	}
	self := all[selfPid()]
	guard, ok := all[t.Group]
	orphaned := !ok || guard.dead
	for _, p := range all {
		if p.dead || p.pid == self.pid {
			continue
		}
		below := t.descends(all, &p, orphaned)
		switch {
		case p.group == t.Group, below && p.session == self.session:
			in = append(in, p)
		case below:
			escaped = append(escaped, p)
		}
	}
	t.found = in
	return in, escaped, true
}

// descends climbs from p to the guard, or to its heir if the guard has died, and notes whether it comes by the guard of another dibs.
func (t *Tree) descends(all map[int]process, p *process, orphaned bool) bool {
	at := *p
	for range len(all) { // and no further: parents that changed meanwhile may lead round and round
		p.served = p.served || at.guard && at.pid != t.Group
		switch at.parent {
		case t.Group:
			return true
		case t.Heir.Pid:
			return orphaned && !t.Heir.spares(at)
		}
		next, ok := all[at.parent]
		if !ok {
			return false
		}
		at = next
	}
	return false
}

// outsiders are the members outside the group, but for those that are served by a dibs of their own.
func (t *Tree) outsiders() (out []process) {
	var seen []process
	begin := time.Now()
	for quiet := 0; quiet < still && time.Since(begin) < enough; {
		in, _, _ := t.members()
		quiet++
		for _, p := range in {
			if has(seen, p) {
				continue
			}
			quiet = 0
			seen = append(seen, p)
			if p.group != t.Group && !p.served {
				out = append(out, p)
			}
		}
	}
	t.found = seen
	return out
}

// killMembers kills until nothing new is found: what was sent KILL starts nothing any more. Those of the last look are killed
// at once, since to look takes its time where many processes run.
func (t *Tree) killMembers() {
	in := t.found
	var seen []process
	for quiet, n := -1, 0; quiet < still && n < looks; n++ {
		quiet++
		for _, p := range in {
			if !has(seen, p) {
				quiet = 0
				seen = append(seen, p)
			}
			p.signal(syscall.SIGKILL)
		}
		in, _, _ = t.members()
	}
}

// Alive tells whether a process of the tree other than the caller lives. known is false where the system does not say.
func (t *Tree) Alive() (alive, known bool) {
	if t.living.pid != 0 && t.living.lives() {
		return true, true
	}
	for range still {
		in, _, known := t.members()
		if !known {
			return false, false
		}
		if len(in) > 0 {
			t.living = in[0]
			return true, true
		}
	}
	return false, true
}

// Escaped are the pids of those that live in sessions of their own.
func (t *Tree) Escaped() (pids []int) {
	var seen []process
	for range still {
		_, escaped, _ := t.members()
		for _, p := range escaped {
			if !has(seen, p) {
				seen, pids = append(seen, p), append(pids, p.pid)
			}
		}
	}
	return pids
}

func has(list []process, p process) bool {
	for _, l := range list {
		if l.is(p) {
			return true
		}
	}
	return false
}
