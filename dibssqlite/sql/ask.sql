-- Keeps the place of waiter ?2, or gives it the last one.
INSERT INTO dibs_waiters (lock_key, waiter, place, seen_ms)
VALUES (?1, ?2, (SELECT coalesce(max(place), 0) + 1 FROM dibs_waiters WHERE lock_key = ?1), ?3)
ON CONFLICT (lock_key, waiter) DO UPDATE SET seen_ms = excluded.seen_ms
