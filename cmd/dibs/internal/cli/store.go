package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/cmd/dibs/internal/storeurl"
	"github.com/dibs-go/dibs/dibsdriver"
)

// storeFlags are the flags of every command that needs a store.
type storeFlags struct {
	url, file    string
	local, quiet bool
	set          *pflag.FlagSet
}

func (f *storeFlags) add(fs *pflag.FlagSet) {
	f.set = fs
	fs.StringVar(&f.url, "store", "", "the store's `URL` (default: DIBS_STORE, else --store-file, else "+storeurl.SystemFile()+", else a file of this user on this machine)")
	fs.StringVar(&f.file, "store-file", "", "a `FILE` that holds the store's URL, which keeps passwords out of ps")
	fs.BoolVar(&f.local, "local", false, "be silent about a lock that holds on this machine and for this user only")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "leave out notices and warnings; the line that says why COMMAND did not run, or was stopped, stays")
}

// find names the store, and gives the notices that are due.
func (f *storeFlags) find() (*storeurl.Store, error) {
	for _, name := range []string{"store", "store-file"} {
		// A script's --store "$UNSET" must not turn a lock of the cluster into a private one.
		if flag := f.set.Lookup(name); flag.Changed && flag.Value.String() == "" {
			return nil, exit.Errorf(exit.Usage, "--%s is empty: give it a value, or leave it out (is a variable of your script not set?)", name)
		}
	}
	s, unread, err := storeurl.Find(storeurl.Flags{URL: f.url, File: f.file})
	if err != nil {
		return nil, err
	}
	if unread != "" {
		f.notice("--store-file " + unread + " is not read: " + s.From + " comes first")
	}
	if s.Password && s.From == "--store" {
		f.notice("the password in --store can be seen by everybody on this machine (ps); put the URL into a --store-file, or into " + storeurl.EnvVar)
	}
	if s.Default && !f.local {
		f.notice("no store is configured: this lock holds on this machine and for this user only (" + s.Name + "); give --store, or --local if that is what you want")
	}
	return s, nil
}

func (f *storeFlags) notice(msg string) {
	if !f.quiet {
		exit.Say(os.Stderr, msg)
	}
}

// closeLimit is how long the end may take once a lock is released.
const closeLimit = 2 * time.Second

// opened is a store that is ready for use.
type opened struct {
	*storeurl.Store
	*dibs.Locker
	driver dibsdriver.Driver
}

// open makes a Locker for the store. The notices are given before, so that one reads them also if nothing works after.
func (f *storeFlags) open(cfg *dibs.Config) (*opened, error) {
	s, err := f.find()
	if err != nil {
		return nil, err
	}
	d, err := s.Open()
	if err != nil {
		return nil, err
	}
	// dibs says what there is to say in lines of its own.
	cfg.Logger = slog.New(slog.DiscardHandler)
	l, err := dibs.New(d, cfg)
	if err != nil {
		_ = d.Close()
		return nil, (&opened{Store: s}).fail(err)
	}
	return &opened{Store: s, Locker: l, driver: d}, nil
}

// close shuts the Locker down, within a time that nobody minds to wait.
func (o *opened) close(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// What it could not finish lapses by itself, and what there is to say of a release was said by Release.
	_ = o.Shutdown(ctx)
}

// fail gives an error of the library the status that it stands for, and the words that users of the command can do something with.
func (o *opened) fail(err error) error {
	if text := o.text(err); text != err.Error() {
		err = reworded{err, text}
	}
	for _, unusable := range []error{dibs.ErrUnavailable, dibs.ErrReadOnly, dibs.ErrClosed, dibsdriver.ErrRefused} {
		if errors.Is(err, unusable) {
			return exit.With(exit.Unavailable, err)
		}
	}
	// What is left is what was asked of it: a key, a TTL, an option that this store does not have.
	return exit.With(exit.Usage, err)
}

// text is what to read where the library says err. It names the store, which is not known to a driver that could not reach it.
func (o *opened) text(err error) string {
	text := o.Words(err.Error())
	if !o.NamedIn(text) {
		text += " (the store is " + o.Name + ")"
	}
	return text
}

// reworded is an error with another text.
type reworded struct {
	error
	text string
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.error }
