package dibsdrivertest_test

import (
	"net/url"
	"strings"

	"github.com/dibs-go/dibs/internal/testenv"
)

// settings are what the DSNs of applications may say. The drivers of a store take turns at them, so that processes whose sessions differ in all of this meet at the
// same rows: no answer may depend on it. READ UNCOMMITTED is not among them, as the suite's own business reads balances outside of its transactions, and would compute with what a holder has
// written that is refused then. (dibsmysql's matrix test goes through all pairs of settings, and more of them, with a short exercise.)
func settings(s *testenv.Server) []string {
	isolation, modes := "transaction_isolation", []string{"STRICT_TRANS_TABLES,TIME_TRUNCATE_FRACTIONAL", "TRADITIONAL"}
	if s.Kind == "mariadb" {
		isolation, modes = "tx_isolation", []string{"SIMULTANEOUS_ASSIGNMENT,EMPTY_STRING_IS_NULL", "ORACLE"}
	}
	return []string{
		"", // go-sql-driver's defaults, and the server's
		dsn("clientFoundRows=true", "interpolateParams=true", "parseTime=true", "loc=Asia/Tokyo", "charset=latin1", "time_zone='+13:00'", isolation+"='SERIALIZABLE'",
			"sql_mode='ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE'"),
		dsn("interpolateParams=true", "multiStatements=true", "charset=utf8mb4", "time_zone='-11:00'", isolation+"='READ-COMMITTED'", "sql_mode='"+modes[0]+"'"),
		dsn("clientFoundRows=true", "parseTime=true", "loc=America/New_York", "charset=binary", isolation+"='REPEATABLE-READ'", "sql_mode='"+modes[1]+"'",
			"sql_safe_updates=1", "rejectReadOnly=true"),
		dsn("clientFoundRows=true", "sql_mode=''"),
	}
}

func dsn(params ...string) string {
	for i, p := range params {
		name, value, _ := strings.Cut(p, "=")
		params[i] = name + "=" + url.QueryEscape(value)
	}
	return strings.Join(params, "&")
}
