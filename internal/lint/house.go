package lint

// The house: what there is, and its order. Who adds a package or a module gives it a place here.

// rooms are the engine's rooms, from the ground up. Each may import dibsdriver and those before it.
var rooms = []string{"call", "owner", "backoff", "seen", "outbox", "load", "settle", "keeper", "line"}

// forDrivers are the internal packages of the core through which drivers see more of it than users do.
var forDrivers = []string{"fencing"}

// aides are internal packages for tests and for work on the repository. No code that is shipped imports them.
var aides = []string{"hooked", "lint", "testsum", "testenv"}

// drivers are the modules that speak to a store, and what each may require besides the core: its client library.
var drivers = map[string][]string{
	"dibsmysql":  {"github.com/go-sql-driver/mysql"},
	"dibssqlite": {"modernc.org/sqlite"},
}

// others are the modules that are no drivers.
var others = []string{"", "cmd/dibs", "dibsdrivertest", "examples", "bench"}

// testTools must not be in a driver's go.mod in any role: its users would have them in theirs.
var testTools = []string{
	"github.com/anishathalye/porcupine",
	"github.com/creack/pty",
	"github.com/google/go-cmp",
	"github.com/stretchr/testify",
	"go.uber.org/goleak",
}

// longFiles are the files that may have more than maxLines lines, each with the reason.
var longFiles = map[string]string{}

const maxLines = 400
