-- ?3 is what is left of the min hold, in ms. With 0 the key is free as of now.
UPDATE dibs_leases
SET owner = CASE WHEN ?3 > 0 THEN owner END, open = 0, expires_ms = $NOW + ?3
WHERE lock_key = ?1 AND owner = ?2
RETURNING 1
