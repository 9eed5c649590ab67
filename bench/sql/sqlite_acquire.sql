-- Takes key ?1 if nobody holds it and nobody waits for it, in a single statement, and returns its token; no row otherwise. What it does not
-- decide is left to the longer way: a queue, an owner that is there already, a token that would be too large.
INSERT INTO dibs_leases (lock_key, token, owner, expires_ms, since_ms, open, holder, note)
SELECT ?1, max(?2, f.value + 1024, n.now_ms * 1000), ?3, n.now_ms + ?4, n.now_ms, 1, ?5, ?6
FROM (SELECT $NOW AS now_ms) AS n CROSS JOIN dibs_meta AS f
WHERE f.name = 'token_floor' AND max(?2, f.value + 1024, n.now_ms * 1000) <= ?7
    AND NOT EXISTS (SELECT 1 FROM dibs_waiters WHERE lock_key = ?1)
ON CONFLICT (lock_key) DO UPDATE SET
    token = max(token + 1024, excluded.token), owner = excluded.owner, expires_ms = excluded.expires_ms, since_ms = excluded.since_ms,
    open = excluded.open, holder = excluded.holder, note = excluded.note
WHERE (owner IS NULL OR expires_ms <= excluded.since_ms) AND token + 1024 <= ?7
RETURNING token
