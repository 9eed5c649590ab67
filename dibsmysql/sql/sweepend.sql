-- Gives the turn up, and notes when.
UPDATE dibs_meta SET value = -$NOW_US WHERE name = 'sweep' AND value = {until}
