-- dibs on MySQL and MariaDB, schema version 1. All times are UTC, by the server's clock.

CREATE TABLE IF NOT EXISTS dibs_meta (
    name  VARBINARY(64) NOT NULL, -- schema_version; token_floor: no token of a row that was deleted is higher; sweep: whose turn it is to delete
    value BIGINT        NOT NULL,
    PRIMARY KEY (name)
) ENGINE=InnoDB;

-- Keys are binary: they compare as bytes. There must be no AUTO_INCREMENT column (its value would take the place of the
-- fencing token in the server's answer) and no index on expires (sweeping by it makes acquisitions deadlock).
CREATE TABLE IF NOT EXISTS dibs_leases (
    lock_key VARBINARY(255) NOT NULL,
    fence    BIGINT         NOT NULL, -- the fencing token; outlives the lease, so that the next one is higher
    owner    VARBINARY(64)  NULL,     -- NULL: free
    expires  DATETIME(6)    NOT NULL, -- 1970-01-01: free
    since    DATETIME(6)    NOT NULL, -- when it was acquired; of a free key, when it became free
    is_open  TINYINT        NOT NULL, -- 0: broken, or released into its min hold; nobody may renew it
    holder   VARCHAR(1024)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    note     VARCHAR(1024)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    PRIMARY KEY (lock_key)
) ENGINE=InnoDB;

-- Row locks: transactions lock these rows, and nobody changes or deletes them. Only those who use row locks need the table.
CREATE TABLE IF NOT EXISTS dibs_rows (
    id    BIGINT         NOT NULL,
    name  VARBINARY(255) NOT NULL,
    turns BIGINT         NOT NULL DEFAULT 0, -- counts only where several servers take writes (RowsConfig.MultiPrimary)
    PRIMARY KEY (id),
    UNIQUE KEY name (name)
) ENGINE=InnoDB;

INSERT INTO dibs_meta (name, value) VALUES ('schema_version', 1), ('token_floor', 0), ('sweep', 0) ON DUPLICATE KEY UPDATE name = name;
