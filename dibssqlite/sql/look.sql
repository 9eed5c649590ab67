-- All that is known of key ?1, and of the place of waiter ?2, at one reading of the clock.
SELECT n.now_ms, l.token, l.owner, l.expires_ms, l.since_ms, l.open, l.holder, l.note,
       coalesce((SELECT value FROM dibs_meta WHERE name = 'token_floor'), 0),
       EXISTS (SELECT 1 FROM dibs_waiters WHERE lock_key = ?1),
       (SELECT seen_ms FROM dibs_waiters WHERE lock_key = ?1 AND waiter = ?2)
FROM (SELECT $NOW AS now_ms) AS n
LEFT JOIN dibs_leases AS l ON l.lock_key = ?1
