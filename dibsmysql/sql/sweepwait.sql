-- The same for servers that cannot skip locked rows, or replicate by statements (a replica might skip others), and under sql_safe_updates on MariaDB.
DELETE FROM dibs_leases WHERE lock_key IN ({keys}) AND fence <= {floor} AND $STALE
