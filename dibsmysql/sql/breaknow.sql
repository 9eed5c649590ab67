-- The same, and the key is free.
UPDATE dibs_leases
SET fence = LAST_INSERT_ID(fence), is_open = 0, since = $NOW, owner = NULL, expires = '1970-01-01'
WHERE lock_key = {key} AND owner = {owner} AND fence = {token} AND {mark} IS NOT NULL
