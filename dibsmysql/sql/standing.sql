-- What became of leases, without waiting for any row: those that stand, and when each ends.
SELECT lock_key, owner, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', expires)
FROM dibs_leases FORCE INDEX (PRIMARY)
WHERE (lock_key, owner) IN ({leases}) AND is_open = 1 AND expires > $NOW
