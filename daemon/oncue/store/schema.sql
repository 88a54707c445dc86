-- The index: derived from the memory files and dropped whenever it is in doubt (memory.md M6).

CREATE TABLE root (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    scanned REAL,                       -- end of the last complete scan; NULL: never
    documents INTEGER NOT NULL DEFAULT 0,
    name_terms INTEGER NOT NULL DEFAULT 0,
    description_terms INTEGER NOT NULL DEFAULT 0,
    body_terms INTEGER NOT NULL DEFAULT 0,
    keyword_terms INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE document (
    id INTEGER PRIMARY KEY,
    root INTEGER NOT NULL REFERENCES root (id),
    path TEXT NOT NULL,                 -- below the root
    sha256 TEXT NOT NULL,               -- '' where the file is too large to be read
    mtime_ns INTEGER NOT NULL,          -- signature: what tells that the file is unchanged
    ctime_ns INTEGER NOT NULL,
    size INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    modified REAL NOT NULL,
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    type TEXT NOT NULL,
    keywords TEXT NOT NULL,             -- JSON
    usage_scenarios TEXT NOT NULL,      -- JSON
    body TEXT NOT NULL,
    language TEXT NOT NULL,
    written_by TEXT NOT NULL,
    written_in TEXT,
    problems TEXT NOT NULL,             -- JSON: [[code, message]]
    analysis TEXT NOT NULL,             -- which analyst, in which version
    prepared BLOB NOT NULL,             -- what the ranker wants to have of it
    name_length INTEGER NOT NULL,
    description_length INTEGER NOT NULL,
    body_length INTEGER NOT NULL,
    keyword_length INTEGER NOT NULL,
    checksum INTEGER NOT NULL,          -- of what is handed out: a flipped bit is damage, not text
    UNIQUE (root, path)
) STRICT;

CREATE INDEX document_by_time ON document (root, modified DESC, path);

-- Files that are no documents at all: links, pipes, names that are not text.
CREATE TABLE problem (
    root INTEGER NOT NULL REFERENCES root (id),
    path TEXT NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (root, path)
) STRICT, WITHOUT ROWID;

-- `root` holds one term, r<id>, so that a search never walks another workspace's postings.
CREATE VIRTUAL TABLE document_terms USING fts5 (
    root, name, description, body, keywords,
    content = '', contentless_delete = 1, tokenize = 'ascii', columnsize = 1
);

CREATE TRIGGER document_added AFTER INSERT ON document BEGIN
    UPDATE root SET documents = documents + 1,
        name_terms = name_terms + new.name_length,
        description_terms = description_terms + new.description_length,
        body_terms = body_terms + new.body_length,
        keyword_terms = keyword_terms + new.keyword_length
    WHERE id = new.root;
END;

CREATE TRIGGER document_removed AFTER DELETE ON document BEGIN
    DELETE FROM document_terms WHERE rowid = old.id;
    UPDATE root SET documents = documents - 1,
        name_terms = name_terms - old.name_length,
        description_terms = description_terms - old.description_length,
        body_terms = body_terms - old.body_length,
        keyword_terms = keyword_terms - old.keyword_length
    WHERE id = old.root;
END;
