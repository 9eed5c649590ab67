-- dibs on SQLite, schema version 1. Times are milliseconds since 1970, UTC, by the clock of the machine as SQLite reads it.

CREATE TABLE IF NOT EXISTS dibs_meta (
    name  TEXT    NOT NULL PRIMARY KEY, -- schema_version; token_floor: the highest token of any row that was deleted
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Keys are blobs: they compare as bytes, and a key may contain any byte.
CREATE TABLE IF NOT EXISTS dibs_leases (
    lock_key   BLOB    NOT NULL PRIMARY KEY,
    token      INTEGER NOT NULL, -- outlives the lease, so that the next one is higher
    owner      TEXT,             -- NULL: free
    expires_ms INTEGER NOT NULL, -- of a free key: since when it is free
    since_ms   INTEGER NOT NULL,
    open       INTEGER NOT NULL, -- 0: broken, or released into its min hold; nobody may renew it
    holder     TEXT    NOT NULL,
    note       TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Whoever deletes a row, the tokens of its key go on rising when it comes back, even if the clock is set back meanwhile.
CREATE TRIGGER IF NOT EXISTS dibs_leases_floor AFTER DELETE ON dibs_leases BEGIN
    UPDATE dibs_meta SET value = OLD.token WHERE name = 'token_floor' AND value < OLD.token;
END;

CREATE TABLE IF NOT EXISTS dibs_waiters (
    lock_key BLOB    NOT NULL,
    waiter   TEXT    NOT NULL,
    place    INTEGER NOT NULL, -- the lowest is first
    seen_ms  INTEGER NOT NULL, -- when it last asked
    PRIMARY KEY (lock_key, waiter)
) STRICT, WITHOUT ROWID;

INSERT OR IGNORE INTO dibs_meta (name, value) VALUES ('schema_version', 1), ('token_floor', 0);
