-- The stale rows of a window, read without a lock.
SELECT lock_key, fence FROM dibs_leases FORCE INDEX (PRIMARY)
WHERE lock_key > {after} AND lock_key <= {last} AND $STALE
ORDER BY lock_key
