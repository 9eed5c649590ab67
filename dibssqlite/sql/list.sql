SELECT l.lock_key, l.token, l.expires_ms - n.now_ms, l.since_ms, NOT l.open, l.holder, l.note
FROM (SELECT $NOW AS now_ms) AS n CROSS JOIN dibs_leases AS l
WHERE l.owner IS NOT NULL AND l.expires_ms > n.now_ms $RANGE
ORDER BY l.lock_key
