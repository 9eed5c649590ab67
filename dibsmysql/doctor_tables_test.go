package dibsmysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dibs-go/dibs/dibsdriver"
	"github.com/dibs-go/dibs/internal/testenv"
)

// TestDoctorTables: what may be wrong with the tables, each provoked, and all of it is told at once.
func TestDoctorTables(t *testing.T) {
	for _, c := range []struct {
		name, change string
		level        dibsdriver.Level
		says         [][]string // for each finding that there must be
	}{
		{"no tables", "DROP TABLE dibs_leases, dibs_meta", isFault, [][]string{{"tables are not there", "dibs init"}, {"table dibs_leases: it is not there", "create it with dibs init"}}},
		{"no leases", "DROP TABLE dibs_leases", isFault, [][]string{{"table dibs_leases: it is not there"}}},
		{"no version", "DELETE FROM dibs_meta", isFault, [][]string{{"no schema_version", "run dibs init"}}},
		{"newer version", "UPDATE dibs_meta SET value = 2 WHERE name = 'schema_version'", isFault, [][]string{{"schema version 2", "update dibs"}}},
		{"auto increment", "ALTER TABLE dibs_leases ADD COLUMN id BIGINT NOT NULL AUTO_INCREMENT, ADD KEY (id)", isFault, [][]string{{"id is AUTO_INCREMENT"}}},
		{"text key", "ALTER TABLE dibs_leases MODIFY lock_key VARCHAR(255) NOT NULL", isFault, [][]string{{"lock_key is varchar", "collation", "--print"}}},
		{"small tokens", "ALTER TABLE dibs_leases MODIFY fence INT NOT NULL", isFault, [][]string{{"fence is int", "64 bits"}}},
		{"other engine", "ALTER TABLE dibs_leases ENGINE=MyISAM", isFault, [][]string{{"MyISAM", "InnoDB"}}},
		{"primary key", "ALTER TABLE dibs_leases DROP PRIMARY KEY, ADD KEY (lock_key)", isFault, [][]string{{"primary key"}}},
		{"a column of others without default", "ALTER TABLE dibs_leases ADD COLUMN mine INT NOT NULL", isFault, [][]string{{"mine", "no row can be added"}}},
		{"unique index", "ALTER TABLE dibs_leases ADD UNIQUE KEY u (note(50))", isFault, [][]string{{"index u is unique", "DROP INDEX"}}},
		{"several", "ALTER TABLE dibs_leases MODIFY expires DATETIME NOT NULL, MODIFY since DATETIME(3) NOT NULL, DROP COLUMN note, DROP COLUMN holder", isFault,
			[][]string{{"expires is DATETIME(0)"}, {"since is DATETIME(3)"}, {"column note is missing"}, {"column holder is missing"}}},
		{"index on expires", "ALTER TABLE dibs_leases ADD KEY e (expires)", isWarning, [][]string{{"index e has expires", "deadlock", "DROP INDEX `e`"}}},
		{"other index", "ALTER TABLE dibs_leases ADD KEY h (is_open)", isWarning, [][]string{{"index h is not dibs'"}}},
		{"a column of others", "ALTER TABLE dibs_leases ADD COLUMN mine INT NULL", isWarning, [][]string{{"column mine is not dibs'"}}},
		{"characters", "ALTER TABLE dibs_leases MODIFY note VARCHAR(1024) CHARACTER SET latin1 NULL", isWarning, [][]string{{"note has latin1", "utf8mb4"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b *bed) {
				b.must(t, b.admin, c.change)
				found := examined(t, b.driver(t, ""))
				for _, parts := range c.says {
					wantFinding(t, found, checkTables, c.level, parts...)
				}
				told := 0
				for _, f := range found {
					if f.Check == checkTables && f.Level != isOK {
						told++
					}
				}
				if most := len(c.says) + 2; told > most { // what follows from it may be told as well
					t.Errorf("%d findings, want %d at most: %s", told, most, listed(found))
				}
				if c.level == isFault {
					onlyFaults(t, found, checkTables)
				} else {
					onlyFaults(t, found)
				}
			})
		})
	}
}

// TestDoctorRowsTable: the table of row locks is looked at where it is there, and not missed where it is not.
func TestDoctorRowsTable(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		d := b.driver(t, "")
		wantFinding(t, examined(t, d), checkRows, isOK, "dibs_rows is as it has to be")
		b.must(t, b.admin, "ALTER TABLE dibs_rows MODIFY name VARCHAR(255) NOT NULL")
		found := examined(t, d)
		wantFinding(t, found, checkRows, isFault, "VARBINARY(255)")
		onlyFaults(t, found, checkRows)
		b.must(t, b.admin, "DROP TABLE dibs_rows")
		wantFinding(t, examined(t, d), checkRows, isOK, "only those who use row locks need it")
	})
}

// TestDoctorRights: each right that is missing is found; with the smallest there is no fault.
func TestDoctorRights(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.must(t, b.admin, "CREATE DATABASE x"+b.database)
		t.Cleanup(func() { b.must(t, b.admin, "DROP DATABASE x"+b.database) })
		if err := drive(t, b.open(t, b.Admin, "x"+b.database, "")).CreateTables(within(t)); err != nil {
			t.Fatal(err)
		}
		user := "v" + b.database[len(testenv.DatabasePrefix):]
		b.must(t, b.admin, "CREATE USER "+user+"@'%' IDENTIFIED BY 'secret'")
		t.Cleanup(func() { b.must(t, b.admin, "DROP USER "+user+"@'%'") })
		d := drive(t, b.open(t, testenv.Account{User: user, Password: "secret"}, "x"+b.database, ""))
		wantFinding(t, examined(t, d), checkConnection, isFault, "grant the rights")
		all := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
		grant := func(table string) {
			b.must(t, b.admin, fmt.Sprintf("GRANT %s ON x%s.dibs_%s TO %s@'%%'", strings.Join(all, ", "), b.database, table, user))
		}
		grant("leases")
		grant("meta")
		found := examined(t, d)
		onlyFaults(t, found)
		wantFinding(t, found, checkRights, isOK)
		wantFinding(t, found, checkRows, isOK, "no right to it")
		b.must(t, b.admin, fmt.Sprintf("GRANT SELECT ON x%s.dibs_rows TO %s@'%%'", b.database, user))
		wantFinding(t, examined(t, d), checkRows, isWarning, "not all rights", "GRANT SELECT, INSERT, UPDATE ON dibs_rows")
		for _, without := range all {
			for _, table := range []string{"leases", "meta"} {
				if table == "meta" && (without == "INSERT" || without == "DELETE") {
					continue // not needed
				}
				b.must(t, b.admin, fmt.Sprintf("REVOKE %s ON x%s.dibs_%s FROM %s@'%%'", without, b.database, table, user))
				found := examined(t, d)
				wantFinding(t, found, checkRights, isFault, without, "dibs_"+table, "GRANT SELECT, INSERT, UPDATE, DELETE ON x"+b.database+".dibs_leases")
				if table == "leases" {
					onlyFaults(t, found, checkRights)
				}
				grant(table)
			}
		}
	})
}
