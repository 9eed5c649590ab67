-- Keeps the turn.
UPDATE dibs_meta SET value = LAST_INSERT_ID($NOW_US + {turn}) WHERE name = 'sweep' AND value = {until}
