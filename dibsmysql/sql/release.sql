-- Marks the row free: deleting it would make inserts that wait for it deadlock, and forget the token. LAST_INSERT_ID tells that there was one.
UPDATE dibs_leases
SET fence = LAST_INSERT_ID(fence), is_open = 0, owner = NULL, expires = '1970-01-01'
WHERE lock_key = {key} AND owner = {owner}
