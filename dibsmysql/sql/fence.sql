-- Locks a lease's row until the transaction that is to be fenced ends: until then nobody takes the key over, and its release waits. Found by its primary key,
-- the row has no neighbours that would be locked as well. By the mark it is found in the server, if nobody waits for its answer any more.
SELECT fence, owner, is_open, TIMESTAMPDIFF(MICROSECOND, $NOW, expires), @@hostname, @@port, @@server_id, {within}, {mark}
FROM {database}dibs_leases WHERE lock_key = {key} FOR UPDATE
