-- All that is known of a key. CONVERT keeps the connection's character set out of the answer.
SELECT fence, owner, is_open, TIMESTAMPDIFF(MICROSECOND, $NOW, expires), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', since),
    CONVERT(holder USING binary), CONVERT(note USING binary)
FROM dibs_leases WHERE lock_key = {key}
