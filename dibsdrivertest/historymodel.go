package dibsdrivertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// leasedLock is the model: what may happen to one key, one thing after another.
//
//   - acquire: nobody has the key, and the token is higher than all before.
//   - end: the holder's section ends, by release or because it can be trusted no more. It happens after the last instant at which the holder
//     trusted its lock; of a section that was lost nobody knows when.
//   - write: the resource accepts it if its token is not below the highest that it has seen.
//
// A history is good if there is an order of these that fits with when each was begun and done.
var leasedLock = porcupine.Model{
	Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		byKey := make(map[string][]porcupine.Operation)
		for _, op := range all {
			key := op.Input.(step).key
			byKey[key] = append(byKey[key], op)
		}
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return lockState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, in := state.(lockState), input.(step)
		switch in.what {
		case stepAcquire:
			return s.holder == 0 && in.token > s.highest, lockState{holder: in.token, highest: in.token, fence: s.fence}
		case stepEnd:
			return s.holder == in.token, lockState{highest: s.highest, fence: s.fence}
		default:
			return in.accepted == (in.token >= s.fence), lockState{holder: s.holder, highest: s.highest, fence: max(s.fence, in.token)}
		}
	},
}

// checkModel looks for an order in which each key's steps are those of a leased lock.
func (h *history) checkModel(held map[string][]*section, bad func(string, ...any)) {
	for _, part := range leasedLock.Partition(h.operations(held)) {
		result, info := porcupine.CheckOperationsVerbose(leasedLock, part, 60*time.Second)
		switch result {
		case porcupine.Ok:
			continue
		case porcupine.Unknown:
			bad("model: no answer in time")
			continue
		}
		longest := 0
		for _, order := range info.PartialLinearizationsOperations()[0] {
			longest = max(longest, len(order))
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		around := part[max(0, longest-3):min(len(part), longest+6)]
		var text strings.Builder
		for _, op := range around {
			fmt.Fprintf(&text, "\n    %s to %s: %s", mono(op.Call), mono(op.Return), op.Input)
		}
		bad("model: this is not what a leased lock does; of %d steps %d can be put in order, around these: %s", len(part), longest, &text)
	}
}

func (s step) String() string {
	return fmt.Sprintf("%s of %s with token %d (accepted: %t)", []string{"acquire", "end", "write"}[s.what], s.key, s.token, s.accepted)
}

// lockState is the state of a key and of the resource under it.
type lockState struct{ holder, highest, fence int64 }

type step struct {
	what     int
	key      string
	token    int64
	accepted bool
}

const (
	stepAcquire = iota
	stepEnd
	stepWrite
)

// operations are the steps of a history.
func (h *history) operations(held map[string][]*section) (all []porcupine.Operation) {
	var end mono
	for _, s := range h.sections {
		end = max(end, s.Got, s.Trusted, s.Freed)
	}
	for _, w := range h.writes {
		end = max(end, w.Done)
	}
	add := func(process int, s step, from, to mono) {
		all = append(all, porcupine.Operation{ClientId: process, Input: s, Call: int64(from), Return: int64(to)})
	}
	for key, list := range held {
		for _, s := range list {
			add(s.Process, step{what: stepAcquire, key: key, token: s.Token}, s.Called, s.Got)
			ended := end + 1
			if s.Outcome == released {
				ended = s.Freed
			}
			add(s.Process, step{what: stepEnd, key: key, token: s.Token}, s.Trusted, ended)
		}
	}
	for _, w := range h.writes {
		add(0, step{what: stepWrite, key: w.Key, token: w.Token, accepted: w.Accepted}, w.Called, w.Done)
	}
	return all
}
