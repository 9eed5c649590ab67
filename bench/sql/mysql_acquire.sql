-- Takes the key if it is free or has expired, or inserts it. LAST_INSERT_ID carries the answer in the reply to the statement itself: the
-- token, or, as a negative number, the microseconds that are left to the present holder.
--
-- UTC_TIMESTAMP is the statement's start: one and the same in each expression, and never later than the moment of the change, so that a statement
-- that had to wait for the row leaves a lease that is short, not one that is long. Assignments are made from left to right, or all at once under
-- SIMULTANEOUS_ASSIGNMENT: what the conditions read is assigned last, and the last condition is right for the old owner as for the new.
-- The key is NULL, an error, where autocommit is off: nobody else would see the lease.
INSERT INTO dibs_leases (lock_key, fence, since, is_open, holder, note, owner, expires)
VALUES (IF(@@autocommit = 1, {key}, NULL), LAST_INSERT_ID(GREATEST({floor}, $NOW_US)), $NOW, 1, {holder}, {note}, {owner}, $NOW + INTERVAL {ttl} MICROSECOND)
ON DUPLICATE KEY UPDATE
    fence = CASE
        WHEN owner IS NULL OR expires <= $NOW THEN LAST_INSERT_ID(GREATEST(fence + 1024, {floor}, $NOW_US))
        WHEN owner = {owner} AND is_open = 1 THEN LAST_INSERT_ID(fence)
        ELSE fence + 0 * LAST_INSERT_ID(-TIMESTAMPDIFF(MICROSECOND, $NOW, expires))
    END,
    since = IF(owner IS NULL OR expires <= $NOW, $NOW, since),
    is_open = IF(owner IS NULL OR expires <= $NOW, 1, is_open),
    holder = IF(owner IS NULL OR expires <= $NOW, {holder}, holder),
    note = IF(owner IS NULL OR expires <= $NOW, {note}, note),
    owner = IF(owner IS NULL OR expires <= $NOW, {owner}, owner),
    expires = IF(owner IS NULL OR expires <= $NOW OR owner = {owner} AND is_open = 1,
        GREATEST(expires, $NOW + INTERVAL {ttl} MICROSECOND), expires)
