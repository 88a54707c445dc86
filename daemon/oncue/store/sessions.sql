-- Claims and cursors: what cannot be made again from files (extraction.md §2, §5).

CREATE TABLE lease (
    name TEXT PRIMARY KEY,
    token INTEGER NOT NULL,     -- last one given out; strictly rising, also over release
    nonce TEXT,                 -- who holds it; NULL: nobody
    pid INTEGER NOT NULL,
    start INTEGER NOT NULL,     -- of the process, in ticks since boot
    boot TEXT NOT NULL,         -- id of the boot
    place TEXT NOT NULL,        -- machine and process namespace: where the pid means something
    beat INTEGER NOT NULL,      -- grows with each heartbeat
    beat_boot REAL NOT NULL,    -- its time, suspend included
    beat_mono REAL NOT NULL,    -- its time, suspend excluded
    claimed REAL NOT NULL       -- wall clock, for people
) STRICT, WITHOUT ROWID;

CREATE TABLE cursor (
    session TEXT PRIMARY KEY,
    token INTEGER NOT NULL,     -- of the run that wrote it
    data TEXT NOT NULL,         -- JSON
    ids BLOB NOT NULL,          -- hashed ids of the summarised prefix
    sha256 TEXT NOT NULL,       -- of both: a flipped bit is damage, not a cursor
    updated REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- What is about to be published: a crash between the notes' write and the cursor's is told by it.
CREATE TABLE intent (
    session TEXT PRIMARY KEY,
    token INTEGER NOT NULL,
    range TEXT NOT NULL,
    revision TEXT NOT NULL,     -- of the notes once they are written
    data TEXT NOT NULL,
    ids BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE applied (
    session TEXT NOT NULL,
    range TEXT NOT NULL,        -- idempotency key
    token INTEGER NOT NULL,
    PRIMARY KEY (session, range)
) STRICT, WITHOUT ROWID;

CREATE TABLE floor (
    token INTEGER NOT NULL      -- tokens begin above this
) STRICT;
