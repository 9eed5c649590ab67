package dibs

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Locks returns the held locks whose keys begin with prefix ("" for all), sorted by key: who holds what, since when, and for how
// long yet. It asks the store and changes nothing.
func (l *Locker) Locks(ctx context.Context, prefix string) ([]Info, error) {
	records, err := ask(ctx, l.engine, func(ctx context.Context) ([]dibsdriver.Record, error) {
		return l.driver.List(ctx, l.cfg.Prefix+prefix)
	})
	if err != nil {
		return nil, err
	}
	infos := make([]Info, len(records))
	for i, r := range records {
		infos[i] = l.info(r)
	}
	return infos, nil
}

func (e *engine) info(r dibsdriver.Record) Info {
	return Info{Key: e.userKey(r.Key), Holder: r.Holder, Note: r.Note, Token: r.Token, Since: r.Since, ExpiresIn: r.ExpiresIn, Ending: r.Ending}
}

// Break makes a lock end at its expiry: it can be renewed no more, and its holder finds that out when it next tries to. Of several
// acquisitions of the key it breaks only the one with this token (see [Locker.Locks] and [Lock.Token]), and returns it as
// it was. [ErrReleased]: nobody holds the key. [ErrBusy], as a *[BusyError]: it is held, with another token.
func (l *Locker) Break(ctx context.Context, key string, token int64) (Info, error) {
	return l.breakLock(ctx, key, token, false)
}

// BreakNow is [Locker.Break], and the key is free at once. It is for a holder that is known to be dead: a living one goes on
// working until it next tries to renew, beside whoever takes the key.
func (l *Locker) BreakNow(ctx context.Context, key string, token int64) (Info, error) {
	return l.breakLock(ctx, key, token, true)
}

func (l *Locker) breakLock(ctx context.Context, key string, token int64, now bool) (Info, error) {
	full, err := l.cfg.storeKey(key)
	if err != nil {
		return Info{}, err
	}
	if token <= 0 {
		return Info{}, fmt.Errorf("dibs: Break needs the token of the lock to be broken, not %d: see Locks", token)
	}
	r, err := ask(ctx, l.engine, func(ctx context.Context) (dibsdriver.Record, error) {
		return l.driver.Break(ctx, dibsdriver.BreakParams{Key: full, Token: token, Now: now})
	})
	switch {
	case errors.Is(err, dibsdriver.ErrNotHeld):
		return Info{}, fmt.Errorf("%w: nobody holds %q", ErrReleased, key)
	case errors.Is(err, dibsdriver.ErrTokenMismatch):
		info := l.info(r)
		return info, &BusyError{Key: key, Holder: info, Left: info.ExpiresIn}
	case err != nil:
		return Info{}, err
	}
	return l.info(r), nil
}
