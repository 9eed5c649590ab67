package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are what the flags say.
type settings struct {
	stores, workloads, contenders []string
	procs                         []int
	works                         []time.Duration
	workers                       int
	leases                        int
	time                          time.Duration
	idle                          time.Duration
	renew                         time.Duration
	json                          bool
}

const help = `Usage: go run ./bench [flags]

Measures dibs and other ways of locking side by side on the same servers, and says which targets are met.

Servers are started from the binaries of this machine (scripts/test-deps installs them), or found where DIBS_TEST_MYSQL and DIBS_TEST_MARIADB say
(mysql://root:password@host:port, of an account that may create databases and users; nobody else should use such a server meanwhile).

  go run ./bench                                            everything, all stores: about 20 minutes
  go run ./bench -short                                     the same with short times and fewer cases: 5 minutes
  go run ./bench -stores mysql -workloads one -work 5ms     50 workers on one key, 5 ms of work
  go run ./bench -stores sqlite -workloads alone -json      as JSON

Workloads:
`

const helpContenders = `
Contenders (-contenders):
  dibs      the library, one Locker in a process
  insert    INSERT of a unique key, DELETE to release; who finds it taken tries again every 100 ms
  row       SELECT ... FOR UPDATE of a fixed row, in a transaction (SQLite: BEGIN IMMEDIATE)
  getlock   the server's GET_LOCK, a connection for each worker
  mutex     a FIFO mutex in the process and no store (memory only)
  insert+mutex, row+mutex, getlock+mutex   the same behind such a mutex in each process

The exit status is 1 if two sections overlapped, a fencing token did not rise, or something failed; missed targets are only reported.

Flags:
`

// parse reads the flags. Its error says what to write instead.
func parse(args []string) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(io.Discard) // a mistake is worth a line, not all of the help
	usage := func() {
		f.SetOutput(os.Stdout)
		fmt.Print(help)
		for _, w := range workloads {
			name, text, _ := strings.Cut(w.title, ": ")
			fmt.Printf("  %-9s %s\n", name, text)
		}
		fmt.Print(helpContenders)
		f.PrintDefaults()
	}
	names := workloadNames()
	stores := f.String("stores", strings.Join(storeNames, ","), "`list` of stores")
	work := f.String("work", "0,5ms,20ms", "`list` of times that a section of the workload one takes")
	procs := f.String("procs", "1,5", "`list` of numbers of processes for the workload one")
	loads := f.String("workloads", strings.Join(names, ","), "`list` of workloads")
	who := f.String("contenders", strings.Join(competing, ","), "`list` of contenders")
	f.IntVar(&s.workers, "workers", 50, "workers, in all processes together")
	f.IntVar(&s.leases, "leases", 10_000, "leases to hold")
	f.DurationVar(&s.time, "time", 5*time.Second, "how long each case is measured")
	f.DurationVar(&s.idle, "idle-time", 10*time.Second, "how long the workload idle is measured")
	f.DurationVar(&s.renew, "lease-time", 20*time.Second, "how long the workload leases is measured; a renewal period is 10 s")
	short := f.Bool("short", false, "short: -time 1s -work 0,5ms -lease-time 10s, and no peers behind a mutex; flags given beside it count")
	f.BoolVar(&s.json, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			usage()
			return nil, err
		}
		return nil, fmt.Errorf("bench: %w; see -help", err)
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("bench: %q is no flag; lists have commas and no spaces; see -help", f.Arg(0))
	}
	if *short {
		given := make(map[string]bool)
		f.Visit(func(g *flag.Flag) { given[g.Name] = true })
		for name, value := range map[string]string{"time": "1s", "work": "0,5ms", "lease-time": "10s", "contenders": "dibs,insert,row,getlock,mutex"} {
			if !given[name] {
				if err := f.Set(name, value); err != nil {
					return nil, err
				}
			}
		}
	}
	var errs [5]error
	s.stores, errs[0] = chosen("-stores", *stores, storeNames)
	s.workloads, errs[1] = chosen("-workloads", *loads, names)
	s.contenders, errs[2] = chosen("-contenders", *who, competing)
	s.procs, errs[3] = list("-procs", *procs, strconv.Atoi, func(n int) bool { return n > 0 && n <= s.workers })
	s.works, errs[4] = list("-work", *work, time.ParseDuration, func(d time.Duration) bool { return d >= 0 })
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if s.workers < 1 || s.workers > 500 || s.leases < 1 || s.time < 100*time.Millisecond || s.idle < time.Second || s.renew < time.Second {
		return nil, errors.New("bench: want -workers from 1 to 500, -leases 1 at least, -time 100ms at least, -idle-time and -lease-time 1s at least")
	}
	return s, nil
}

func workloadNames() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

// chosen reads a list of names, each of which has to be among those there are.
func chosen(flagName, text string, all []string) ([]string, error) {
	return list(flagName, text, func(s string) (string, error) {
		if !slices.Contains(all, s) {
			return "", fmt.Errorf("there is no such thing; there are %s", strings.Join(all, ", "))
		}
		return s, nil
	}, func(string) bool { return true })
}

func list[T any](flagName, text string, read func(string) (T, error), good func(T) bool) (values []T, err error) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := read(part)
		if err != nil {
			return nil, fmt.Errorf("bench: %s %q: %w", flagName, part, err)
		}
		if !good(v) {
			return nil, fmt.Errorf("bench: %s %q: out of range (see -help)", flagName, part)
		}
		values = append(values, v)
	}
	return values, nil
}

func (s *settings) measures(workload string) bool { return slices.Contains(s.workloads, workload) }

// competitors are the chosen contenders that suit a store, without those behind a mutex if bare.
func (s *settings) competitors(storeName string, bare bool) (names []string) {
	for _, c := range s.contenders {
		if suits(c, storeName) && !(bare && strings.HasSuffix(c, behindMutex)) {
			names = append(names, c)
		}
	}
	return names
}
