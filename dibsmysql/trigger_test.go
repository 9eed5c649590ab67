package dibsmysql

import "testing"

// TestTriggers: a user's triggers on the table may take the place of what LAST_INSERT_ID was to carry. Everything works all the same.
func TestTriggers(t *testing.T) {
	onBoth(t, func(t *testing.T, b *bed) {
		b.must(t, b.admin, "CREATE TABLE log (id BIGINT PRIMARY KEY AUTO_INCREMENT, lock_key VARBINARY(255))")
		for _, when := range []string{"BEFORE INSERT", "AFTER INSERT", "BEFORE UPDATE", "AFTER UPDATE"} {
			b.must(t, b.admin, "CREATE TRIGGER t"+when[:1]+when[len(when)-6:]+" "+when+" ON dibs_leases FOR EACH ROW INSERT INTO log (lock_key) VALUES (NEW.lock_key)")
		}
		exercise(t, "k", b.driver(t, ""), b.driver(t, ""))
		exercise(t, "k", b.driver(t, "clientFoundRows=true"), b.driver(t, ""))
	})
}
