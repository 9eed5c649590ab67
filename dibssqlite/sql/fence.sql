-- Within a transaction that is to be fenced: takes the file's write lock, if the transaction does not have it yet, and looks whether lease ?1 of owner ?2 with token ?3 stands. It makes
-- a change, of one millisecond, so that others can see whether it was committed at once, for want of a transaction.
UPDATE dibs_leases SET expires_ms = expires_ms + 1
WHERE lock_key = ?1 AND owner = ?2 AND open = 1 AND expires_ms > $NOW AND ?3 BETWEEN token AND token + 1023
RETURNING expires_ms
