package dibsdrivertest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/testenv"
	"go.uber.org/goleak"
)

// Open opens the store that a URL of [Store] names, in a helper process.
type Open func(url string) (dibsdriver.Driver, error)

// takerURL in the environment makes a copy of the test binary a taker on that store instead of a test.
const takerURL = "DIBS_TEST_TAKER"

// parallel is how many cases run at once. They mostly wait, so it is more than there are processors.
const parallel = 12

var seed = new(int64)

// Main is the whole of a TestMain. It also makes sure that no goroutine outlives the tests.
func Main(m *testing.M, open Open) {
	if url := os.Getenv(takerURL); url != "" {
		os.Exit(serveTaker(url, open))
	}
	flag.Int64Var(seed, "dibs.seed", 0, "seed of the random tests; 0 for another one each time")
	flag.Parse()
	if !isSet("test.parallel") {
		flag.Set("test.parallel", strconv.Itoa(parallel))
	}
	goleak.VerifyTestMain(testenv.Wrap(m))
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// newSeed returns the seed that was asked for, or a new one, and says how to have it again if the test fails.
func newSeed(t *testing.T) int64 {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Int64N(1_000_000_000) + 1
	}
	t.Logf("seed %d", s)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; to repeat: go test -run %s -dibs.seed=%d ./...", s, t.Name(), s)
		}
	})
	return s
}

// random returns the source of a part of a test, so that parts that run side by side do not disturb each other's numbers.
func random(seed int64, part int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), uint64(part)))
}

// Long tells that the tests may take minutes: DIBS_TEST_LONG=1.
func Long() bool { return os.Getenv("DIBS_TEST_LONG") == "1" }

// mono is a point in time that all processes of this machine agree on.
type mono int64

func (m mono) sub(earlier mono) time.Duration { return time.Duration(m - earlier) }

func (m mono) String() string { return fmt.Sprintf("%.3fs", time.Duration(m).Seconds()) }
