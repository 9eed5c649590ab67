-- ?3 is what is left of the min hold, in ms. With 0 the key is free as of now. A request that comes late, after another like it was done, makes nothing longer, and nothing that has
-- expired is taken again.
UPDATE dibs_leases
SET owner = CASE WHEN ?3 > 0 THEN owner END, open = 0, expires_ms = CASE WHEN ?3 = 0 THEN $NOW
    WHEN expires_ms <= $NOW THEN expires_ms
    WHEN open THEN $NOW + ?3
    ELSE min(expires_ms, $NOW + ?3) END
WHERE lock_key = ?1 AND owner = ?2
RETURNING 1
