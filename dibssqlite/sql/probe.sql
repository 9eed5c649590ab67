-- Writes to the pages that an acquisition writes to, and leaves nothing there: no key is empty, and no name is.
INSERT OR REPLACE INTO dibs_leases (lock_key, token, owner, expires_ms, since_ms, open, holder, note) VALUES (x'', 0, NULL, 0, 0, 0, '', '');
DELETE FROM dibs_leases WHERE lock_key = x'';
INSERT OR REPLACE INTO dibs_meta (name, value) VALUES ('', 0);
DELETE FROM dibs_meta WHERE name = '';
