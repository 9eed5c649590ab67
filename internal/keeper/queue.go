package keeper

import "container/heap"

// queue is a heap of leases, the one that is due first on top.
type queue []*Lease

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next().Before(q[j].next()) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue) Push(x any) {
	l := x.(*Lease)
	l.index = len(*q)
	*q = append(*q, l)
}

func (q *queue) Pop() any {
	old := *q
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	l.index = -1
	return l
}

// fix restores the order after the times of many leases have changed.
func (q *queue) fix() { heap.Init(q) }
