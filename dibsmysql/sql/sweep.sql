-- Removes what is still as it was when it was read, and waits for nobody: who never waits is in no deadlock. LIMIT and STRAIGHT_JOIN are there for the same
-- reasons as in a renewal.
DELETE l FROM (
    SELECT lock_key FROM dibs_leases FORCE INDEX (PRIMARY)
    WHERE lock_key IN ({keys}) AND fence <= {floor} AND $STALE
    LIMIT {limit} FOR UPDATE SKIP LOCKED
) AS r STRAIGHT_JOIN dibs_leases AS l FORCE INDEX (PRIMARY) ON l.lock_key = r.lock_key
