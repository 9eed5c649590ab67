-- Locks a lease's row until the transaction that is to be fenced ends: until then nobody takes the key over, and its release waits. Found by its primary key,
-- the row has no neighbours that would be locked as well.
SELECT fence, owner, is_open, TIMESTAMPDIFF(MICROSECOND, $NOW, expires), @@hostname, @@port, @@server_id, {within}
FROM {database}dibs_leases WHERE lock_key = {key} FOR UPDATE
