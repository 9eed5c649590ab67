INSERT INTO dibs_leases (lock_key, token, owner, expires_ms, since_ms, open, holder, note)
VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7)
ON CONFLICT (lock_key) DO UPDATE SET
    token = excluded.token, owner = excluded.owner, expires_ms = excluded.expires_ms, since_ms = excluded.since_ms,
    open = excluded.open, holder = excluded.holder, note = excluded.note
