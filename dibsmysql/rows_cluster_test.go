package dibsmysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/testenv"
)

// TestFact36_RowsMultiPrimary: where several servers take writes, row locks are refused unless that is allowed; and each transaction then writes to its row, which
// is what lets one of two fail at its commit.
func TestFact36_RowsMultiPrimary(t *testing.T) {
	t.Parallel()
	b := newBed(t, testenv.StartMySQL(t, "--plugin-load-add=group_replication.so", "--loose-group-replication-single-primary-mode=OFF"), true)
	db := b.pool(t, "")
	_, err := NewRows(within(t), db, nil)
	if !errors.Is(err, dibs.ErrUnsupported) || !strings.Contains(err.Error(), "MultiPrimary") {
		t.Error(err)
	}
	r := b.rowsOn(t, db, &RowsConfig{MultiPrimary: true})
	for range 3 {
		if err := r.Do(within(t), "a", func(ctx context.Context, tx *sql.Tx) error { return set(1, 1)(ctx, tx) }); err != nil {
			t.Error(err)
		}
	}
	if err := r.Do(within(t), "a", func(context.Context, *sql.Tx) error { return errTest }); !errors.Is(err, errTest) {
		t.Error(err)
	}
	if n := b.number(t, "SELECT turns FROM dibs_rows WHERE name = 'a'"); n != 3 {
		t.Errorf("%d turns", n)
	}
	b.nothingLeft(t, db)
}

// TestRowsClusterKinds: what the servers' variables say.
func TestRowsClusterKinds(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"wsrep_on", "ON", true}, {"wsrep_on", "1", true}, {"wsrep_on", "OFF", false}, {"transaction_isolation", "READ-COMMITTED", false},
		{"group_replication_single_primary_mode", "OFF", true}, {"group_replication_single_primary_mode", "ON", false},
	} {
		if got := multiPrimary(map[string]string{c.name: c.value}); (got != "") != c.want {
			t.Errorf("%s=%s: %q", c.name, c.value, got)
		}
	}
}

// TestRowsRefusedCommit: which answers to a COMMIT mean that it did not take place.
func TestRowsRefusedCommit(t *testing.T) {
	h := &rowHold{r: &Rows{d: New(nil, nil)}, name: "a"}
	for number, refused := range map[uint16]bool{
		1213: true, 1020: true, 3101: true, 1290: true, 1047: true, 4031: true, // certification lost, read-only, not a member, ended before
		1180: false, 1317: false, 1053: false, 2013: false, 1105: false, 1927: false, 9001: false, // may have come after it
	} {
		err := h.outcome(serverError(number))
		if code(err) != number || errors.Is(err, dibs.ErrOutcomeUnknown) == refused || !errors.Is(err, dibsdriver.ErrUnavailable) ||
			refused != strings.Contains(err.Error(), "not committed") || errors.Is(err, dibs.ErrReadOnly) != (number == 1290) {
			t.Errorf("%d: %v", number, err)
		}
	}
}
