package dibs

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"time"
	"unicode/utf8"

	"github.com/dibs-go/dibs/dibsdriver"
)

// Config is what a [Locker] works by. The zero value of each field stands for its default; nil for a *Config is all defaults.
type Config struct {
	// TTL is how long a lease lasts after its last renewal: the time after which the key of a dead holder is free.
	// Defaults to 30 s; at most 24 h; the store may set a smallest.
	// A lease is renewed every third of it.
	TTL time.Duration

	// MaxHold is the longest time one critical section may take. Past it renewal stops, the work's context ends with
	// [ErrMaxHold], and the lease lapses. Defaults to 0, no limit: nobody can guess how long another's job takes.
	MaxHold time.Duration

	// HoldAlarm is the time after which a hold is logged at error level, and again at each doubling. Defaults to 5 min; at least 1 ms; negative
	// turns it off.
	HoldAlarm time.Duration

	// Margin is how much earlier than the store a holder stops to believe in its lease: it has to cover the drift of the
	// clocks and the time in which the work notices that its context ended. Defaults to TTL/10 within 10 ms and max(1 s, TTL/1000);
	// at least 1 ms and at most TTL/3.
	Margin time.Duration

	// RequestTimeout is the longest time that the engine waits for one answer of the store (and never longer than the trust
	// window). [Lock.Release] returns within it. Defaults to 5 s; at least 1 ms and at most 24 h.
	RequestTimeout time.Duration

	// Prefix comes before every key in the store, so that several applications can share its tables. Defaults to "".
	Prefix string

	// Name is how others see this process as a holder, up to 255 bytes. Defaults to "HOST pid PID". It decides nothing:
	// owners are random.
	Name string

	// Logger is where the engine writes what nobody may be listening for. Defaults to [slog.Default]. A record at which it panics is lost.
	Logger *slog.Logger

	// Events are functions of yours that are told what happens.
	Events Events
}

const (
	defaultTTL       = 30 * time.Second
	defaultHoldAlarm = 5 * time.Minute
	defaultTimeout   = 5 * time.Second
	maxTTL           = 24 * time.Hour
	maxTimeout       = maxTTL // so that sums of times stay far from their largest
	// leastTime is the shortest that a time which is set may be: a number without its unit (5 for 5*time.Second) is shorter.
	leastTime = time.Millisecond
	maxName   = 255
	maxNote   = 1024
)

// settled returns the configuration with its defaults filled in, or an error that says what does not fit.
func (c *Config) settled(limits dibsdriver.Limits) (Config, error) {
	var s Config
	if c != nil {
		s = *c
	}
	s.TTL = cmp.Or(s.TTL, max(limits.SessionTTL, 0), defaultTTL)
	s.HoldAlarm = cmp.Or(s.HoldAlarm, defaultHoldAlarm)
	s.RequestTimeout = cmp.Or(s.RequestTimeout, defaultTimeout)
	if s.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		s.Name = fmt.Sprintf("%s pid %d", host, os.Getpid())
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	switch {
	case limits.SessionTTL > 0 && s.TTL != limits.SessionTTL:
		return s, fmt.Errorf("%w: Config.TTL is %s, but all leases on %s live as long as its session, %s: set the TTL there",
			ErrUnsupported, s.TTL, limits.Store, limits.SessionTTL)
	case s.RequestTimeout < 0:
		return s, fmt.Errorf("dibs: Config.RequestTimeout is %s: it must be positive", s.RequestTimeout)
	case s.RequestTimeout < leastTime:
		return s, tooShort("RequestTimeout", s.RequestTimeout)
	case s.RequestTimeout > maxTimeout:
		return s, fmt.Errorf("dibs: Config.RequestTimeout is %s: it may be %s at most; no answer is waited for longer than the lease can be trusted", s.RequestTimeout, maxTimeout)
	case s.HoldAlarm > 0 && s.HoldAlarm < leastTime:
		return s, tooShort("HoldAlarm", s.HoldAlarm)
	case s.Margin > 0 && s.Margin < leastTime:
		return s, tooShort("Margin", s.Margin)
	case len(s.Name) > maxName || !utf8.ValidString(s.Name):
		return s, fmt.Errorf("dibs: Config.Name must be valid UTF-8 of at most %d bytes", maxName)
	case len(s.Prefix) >= maxKey || !utf8.ValidString(s.Prefix):
		return s, fmt.Errorf("%w: Config.Prefix must be valid UTF-8 of less than %d bytes", ErrInvalidKey, maxKey)
	}
	o := options{ttl: s.TTL, maxHold: s.MaxHold}
	return s, o.check(&s, limits)
}

func tooShort(field string, d time.Duration) error {
	return fmt.Errorf("dibs: Config.%s is %s: it must be %s or more (is its unit missing, as in 5*time.Second?)", field, d, leastTime)
}

// margin is the margin of a lease with this TTL.
func (c *Config) margin(ttl time.Duration) time.Duration {
	if c.Margin != 0 {
		return c.Margin
	}
	return min(max(ttl/10, 10*time.Millisecond), max(time.Second, ttl/1000))
}
