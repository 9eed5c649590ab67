-- Acts only on the lease that was looked at. LAST_INSERT_ID tells that it was still there. By the mark it is found in the server, if nobody waits for its answer any more.
UPDATE dibs_leases
SET fence = LAST_INSERT_ID(fence), is_open = 0
WHERE lock_key = {key} AND owner = {owner} AND fence = {token} AND expires > $NOW AND {mark} IS NOT NULL
