-- Takes the turn, if nobody has it; LAST_INSERT_ID tells until when it is ours. A turn that ends later than any that could have been taken by now is from before the
-- clock was set back.
UPDATE dibs_meta SET value = LAST_INSERT_ID($NOW_US + {turn})
WHERE name = 'sweep' AND (value <= $NOW_US OR value > $NOW_US + {turn})
