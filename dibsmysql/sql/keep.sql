-- Releases into what is left of the min hold.
UPDATE dibs_leases
SET fence = LAST_INSERT_ID(fence), is_open = 0, expires = $NOW + INTERVAL {keep} MICROSECOND
WHERE lock_key = {key} AND owner = {owner}
