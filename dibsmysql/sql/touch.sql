-- Changes a lease's row as little as can be: nodes of a cluster tell each other of what was written, not of what is locked. So of a commit and of whatever passes the lease on at
-- another node, the later one fails.
UPDATE {database}dibs_leases SET expires = expires + INTERVAL 1 MICROSECOND WHERE lock_key = {key}
