-- Releases into what is left of the min hold. A request that comes late, after another like it was done, makes nothing longer, and nothing that has expired is taken again.
UPDATE dibs_leases
SET fence = LAST_INSERT_ID(fence),
    expires = IF(expires <= $NOW, expires, IF(is_open = 1, $NOW + INTERVAL {keep} MICROSECOND, LEAST(expires, $NOW + INTERVAL {keep} MICROSECOND))),
    is_open = 0
WHERE lock_key = {key} AND owner = {owner}
