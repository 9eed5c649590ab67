-- The next rows by primary key after ?1: where they end, and how many of them have been free since before ?2.
SELECT max(lock_key), count(*), coalesce(sum(expires_ms < ?2), 0)
FROM (SELECT lock_key, expires_ms FROM dibs_leases WHERE lock_key > ?1 ORDER BY lock_key LIMIT 200)
