-- ?1 is a JSON array of [key in hex, owner, TTL in ms]: one text for every size of batch, so it is compiled once. ?2 is the time, which costs as much
-- to read for every row as all the rest.
WITH due (lock_key, owner, ttl_ms) AS MATERIALIZED (
    SELECT unhex(value ->> 0), value ->> 1, value ->> 2 FROM json_each(?1)
)
UPDATE dibs_leases AS l
SET expires_ms = max(l.expires_ms, ?2 + due.ttl_ms)
FROM due
WHERE l.lock_key = due.lock_key AND l.owner = due.owner AND l.open = 1 AND l.expires_ms > ?2
RETURNING lock_key, owner
