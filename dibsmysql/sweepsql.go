package dibsmysql

import (
	_ "embed"
	"strings"
)

//go:embed sql/sweepwindow.sql
var sweepWindowSQL string

//go:embed sql/sweepstale.sql
var sweepStaleSQL string

//go:embed sql/sweep.sql
var sweepSQL string

//go:embed sql/sweepwait.sql
var sweepWaitSQL string

//go:embed sql/sweepfloor.sql
var sweepFloorSQL string

//go:embed sql/sweepwhen.sql
var sweepWhenSQL string

//go:embed sql/sweepturn.sql
var sweepTurnSQL string

//go:embed sql/sweepon.sql
var sweepOnSQL string

//go:embed sql/sweepend.sql
var sweepEndSQL string

// sweepTurnRow makes the row by which processes take turns, where the tables are older than it.
const sweepTurnRow = "INSERT INTO dibs_meta (name, value) VALUES ('sweep', 0) ON DUPLICATE KEY UPDATE name = name"

// staleSQL is when a row may go: free or expired for the whole retention, and its token below the time of then. As a new row's token is the time at least, it is then higher
// than that of the row that went, also for a driver that read the token floor long ago. Tokens can be ahead of the clock (a key that was taken
// more than 1,000 times a second; a server whose clock was ahead): such rows stay until the clock has passed them.
const staleSQL = "(fence <= $NOW_US - {retention} AND IF(owner IS NULL, since, expires) <= $NOW - INTERVAL {retention} MICROSECOND)"

// sweepStatements are the texts of one driver.
type sweepStatements struct {
	window, stale, sweep, wait, floor, tokens, when, row, turn, on, end *statement
}

func newSweepStatements(prefix string) *sweepStatements {
	c := func(sql string, names ...string) *statement {
		return newStatement(prefix, strings.ReplaceAll(sql, "$STALE", staleSQL), names...)
	}
	return &sweepStatements{
		window: c(sweepWindowSQL, "retention", "after", "limit"), stale: c(sweepStaleSQL, "retention", "after", "last"),
		sweep: c(sweepSQL, "retention", "keys", "floor", "limit"), wait: c(sweepWaitSQL, "retention", "keys", "floor"),
		floor: c(sweepFloorSQL, "floor"), tokens: c("SELECT value FROM dibs_meta WHERE name = 'token_floor'"),
		when: c(sweepWhenSQL), row: c(sweepTurnRow),
		turn: c(sweepTurnSQL, "turn"), on: c(sweepOnSQL, "turn", "until"), end: c(sweepEndSQL, "until"),
	}
}
