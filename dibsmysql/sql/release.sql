-- Marks the row free: deleting it would make inserts that wait for it deadlock, and forget the token. LAST_INSERT_ID tells that there was one, and whether somebody
-- waits for its baton.
UPDATE dibs_leases
SET fence = fence + 0 * LAST_INSERT_ID({told}), is_open = 0, since = $NOW, owner = NULL, expires = '1970-01-01'
WHERE lock_key = {key} AND owner = {owner}
