-- Whose turn it is, without a lock.
SELECT value, $NOW_US FROM dibs_meta WHERE name = 'sweep'
