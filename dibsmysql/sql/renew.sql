-- Renews all that nobody else has locked. Without LIMIT, MySQL merges the derived table into the update and waits after all; without
-- STRAIGHT_JOIN, MariaDB may read the whole table first, and wait for each row of it.
-- LAST_INSERT_ID carries the time from which the leases were renewed.
UPDATE (
    SELECT lock_key FROM dibs_leases FORCE INDEX (PRIMARY)
    WHERE (lock_key, owner) IN ({leases}) AND is_open = 1 AND expires > $NOW
    LIMIT {limit} FOR UPDATE SKIP LOCKED
) AS r STRAIGHT_JOIN dibs_leases AS l FORCE INDEX (PRIMARY) ON l.lock_key = r.lock_key
SET l.fence = l.fence + 0 * LAST_INSERT_ID($NOW_US), l.expires = GREATEST(l.expires, $NOW + INTERVAL {ttl} MICROSECOND)
