SELECT lock_key, fence, TIMESTAMPDIFF(MICROSECOND, $NOW, expires), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', since),
    is_open, CONVERT(holder USING binary), CONVERT(note USING binary)
FROM dibs_leases
WHERE owner IS NOT NULL AND expires > $NOW {range}
ORDER BY lock_key
