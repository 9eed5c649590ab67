-- For servers without SKIP LOCKED: one row, for which it waits at most as long as the keeper's connection allows. Compared as a pair, MariaDB may
-- read, and wait for, every row.
UPDATE dibs_leases
SET fence = fence + 0 * LAST_INSERT_ID($NOW_US), expires = GREATEST(expires, $NOW + INTERVAL {ttl} MICROSECOND)
WHERE lock_key = {key} AND owner = {owner} AND is_open = 1 AND expires > $NOW
