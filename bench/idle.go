package main

import (
	"context"
	"errors"
	"time"
)

var idleColumns = []column{
	{"waiters", "waiters", "%.0f"}, {"statements/s, by the server", "statements_per_s", "%.2f"}, {"by the client", "sent_per_s", "%.2f"},
	{"connections", "connections", "%.0f"}, {"of a core", "cpu", "%.4f"},
}

// idle looks at a process that waits. The server's count of statements is of all its clients, so what this process and the holder sent is subtracted.
func idle(ctx context.Context, b *bench) error {
	if b.host.Name == "memory" {
		return nil // it has no way to another process
	}
	for _, c := range b.competitors(b.host.Name, true) {
		figures, err := idleWith(ctx, b, c)
		if err != nil {
			return err
		}
		b.add(c, 2, 0, figures, answer{})
	}
	return nil
}

func idleWith(ctx context.Context, b *bench, c string) (figures map[string]float64, err error) {
	key := b.host.key(1)
	var both team
	defer func() {
		for _, p := range both { // the holder first: some of those who wait do so in the server, until it ends
			err = errors.Join(err, p.dismiss())
		}
	}()
	holder, err := employ(ctx, job{Store: b.host.store, Contender: c, Workers: 1, Key: key})
	if err != nil {
		return nil, err
	}
	both = append(both, holder)
	waiter, err := employ(ctx, job{Store: b.host.waiter, Contender: c, Workers: b.workers, Key: key})
	if err != nil {
		return nil, err
	}
	both = append(both, waiter)
	if _, err := holder.ask(order{Do: "hold"}); err != nil {
		return nil, err
	}
	time.Sleep(time.Second) // so that the holder has done what it does about its new lock

	before, err := b.look(ctx, holder, waiter)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := waiter.ask(order{Do: "wait", Count: b.workers}); err != nil {
		return nil, err
	}
	connections := 0
	asked := int64(0)
	for tick := began.Add(500 * time.Millisecond); time.Since(began) < b.idle; tick = tick.Add(time.Second) {
		time.Sleep(time.Until(tick))
		if b.host.server() {
			n, err := b.host.connections(ctx)
			if err != nil {
				return nil, err
			}
			connections = max(connections, n)
			asked++
		}
	}
	after, err := b.look(ctx, holder, waiter)
	if err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	figures = map[string]float64{"waiters": float64(b.workers), "cpu": (after.waiter.CPU - before.waiter.CPU).Seconds() / took}
	if b.host.server() {
		own := asked + 1 // the second look's own question
		statements := after.questions - before.questions - own - (after.holder.Sent - before.holder.Sent)
		figures["statements_per_s"] = float64(statements) / took
		figures["sent_per_s"] = float64(after.waiter.Sent-before.waiter.Sent) / took
		figures["connections"] = float64(connections)
	}
	return figures, nil
}

// looked is what the server and both processes say at one time.
type looked struct {
	questions      int64
	holder, waiter answer
}

func (b *bench) look(ctx context.Context, holder, waiter *process) (l looked, err error) {
	if l.holder, err = holder.ask(order{Do: "usage"}); err != nil {
		return l, err
	}
	if l.waiter, err = waiter.ask(order{Do: "usage"}); err != nil {
		return l, err
	}
	if b.host.server() {
		l.questions, err = b.host.questions(ctx)
	}
	return l, err
}
