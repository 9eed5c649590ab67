-- The next rows by primary key, read without a lock: where they end, how many are stale, and for how long the first of these has been.
SELECT MAX(lock_key), COALESCE(SUM(stale), 0), COALESCE(MAX(IF(stale = 1, age, 0)), 0)
FROM (
    SELECT lock_key, IF($STALE, 1, 0) AS stale, TIMESTAMPDIFF(MICROSECOND, IF(owner IS NULL, since, expires), $NOW) AS age
    FROM dibs_leases FORCE INDEX (PRIMARY)
    WHERE lock_key > {after} ORDER BY lock_key LIMIT {limit}
) AS w
