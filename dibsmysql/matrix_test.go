package dibsmysql

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

// setting is a parameter of the DSN and what it may be; "" leaves it out.
type setting struct {
	name   string
	values []string
}

func settings(b *bed) []setting {
	isolation := "transaction_isolation"
	modes := []string{"", "''", "'TRADITIONAL'", "'ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE'",
		"'PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION,REAL_AS_FLOAT'"}
	if b.mysql {
		modes = append(modes, "'STRICT_TRANS_TABLES,TIME_TRUNCATE_FRACTIONAL'")
	} else {
		isolation = "tx_isolation"
		modes = append(modes, "'ORACLE'", "'SIMULTANEOUS_ASSIGNMENT,EMPTY_STRING_IS_NULL'", "'STRICT_ALL_TABLES,SIMULTANEOUS_ASSIGNMENT,TIME_ROUND_FRACTIONAL'")
	}
	return []setting{
		{"clientFoundRows", []string{"false", "true"}},
		{"interpolateParams", []string{"false", "true"}},
		{"parseTime", []string{"false", "true"}},
		{"multiStatements", []string{"", "true"}},
		{"compress", []string{"", "true"}},
		{"loc", []string{"", "Asia/Tokyo", "America/New_York"}},
		{"charset", []string{"", "utf8mb4", "latin1", "gbk", "binary"}},
		{"time_zone", []string{"", "'+13:00'", "'-11:00'"}},
		{isolation, []string{"", "'READ-UNCOMMITTED'", "'READ-COMMITTED'", "'REPEATABLE-READ'", "'SERIALIZABLE'"}},
		{"sql_mode", modes},
		{"sql_safe_updates", []string{"", "1"}},
	}
}

// pairwise returns rows of choices, one for each setting, such that any two values of any two settings meet in some row.
func pairwise(r *rand.Rand, all []setting) (rows [][]int) {
	type pair struct{ i, a, j, b int }
	open := make(map[pair]bool)
	for i := range all {
		for j := range i {
			for a := range all[i].values {
				for b := range all[j].values {
					open[pair{i, a, j, b}] = true
				}
			}
		}
	}
	covers := func(row []int) (pairs []pair) {
		for i := range row {
			for j := range i {
				if p := (pair{i, row[i], j, row[j]}); open[p] {
					pairs = append(pairs, p)
				}
			}
		}
		return pairs
	}
	for len(open) > 0 {
		var best []int
		var most []pair
		for range 60 { // the best of some that contain a pair that is still open
			row := make([]int, len(all))
			for i := range row {
				row[i] = r.IntN(len(all[i].values))
			}
			for p := range open {
				row[p.i], row[p.j] = p.a, p.b
				break
			}
			if c := covers(row); len(c) > len(most) {
				best, most = row, c
			}
		}
		for _, p := range most {
			delete(open, p)
		}
		rows = append(rows, best)
	}
	return rows
}

// TestFact15_22_26_42_43_B32_Matrix: whatever a DSN says, the answers are the same.
func TestFact15_22_26_42_43_B32_Matrix(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	onBoth(t, func(t *testing.T, b *bed) {
		all := settings(b)
		rows := pairwise(rand.New(rand.NewPCG(seed, 0)), all)
		t.Logf("%d configurations", len(rows))
		for i, row := range rows {
			var params []string
			for j, s := range all {
				if v := s.values[row[j]]; v != "" {
					params = append(params, s.name+"="+url.QueryEscape(v))
				}
			}
			// The other process has the server's own settings.
			config := strings.Join(params, "&")
			t.Run(config, func(t *testing.T) {
				t.Parallel()
				d := b.driver(t, config)
				exercise(t, fmt.Sprintf("🔒%02d", i), d, b.driver(t, ""))
				if err := d.Ping(within(t)); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
