"""The index of memory files: SQL, and nothing that knows of files or tasks (memory.md M6).

Each function takes a connection inside a transaction of the store and runs in its thread.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import apsw
from attrs import frozen

from oncue.memory.files import FileProblem, Signature
from oncue.memory.provenance import Writer
from oncue.memory.roots import Root
from oncue.memory.rows import (
    COLUMNS,
    HANDED_OUT,
    ChecksumError,
    IndexedDocument,
    Row,
    indexed,
    values,
)

MAX_CANDIDATES = 200
"""FTS5 gives so many to the ranker (memory.md §3)."""
FIELD_WEIGHTS = "bm25(0.0, 3.0, 2.0, 1.0, 3.0)"
"""Of root, name, description, body, keywords, for choosing candidates."""

Connection = apsw.Connection

Roots = Mapping[int, Root]
"""Roots of one search by their id in the index."""


@frozen
class Corpus:
    """What a ranker must know of all documents that a search covers."""

    documents: int
    name_terms: int
    description_terms: int
    body_terms: int
    keyword_terms: int
    """Terms of each field, summed over the documents."""
    frequencies: Mapping[str, int] | None = None
    """In how many of the documents each term of the query occurs; None: every document that
    holds any is among the candidates, where they can be counted."""


@frozen
class Candidates:
    """Answer of the first stage."""

    found: tuple[IndexedDocument, ...]
    """Best first by FTS5's own BM25."""
    corpus: Corpus


@frozen
class Known:
    """What the index has of one file."""

    id: int
    sha256: str
    signature: Signature
    writer: Writer
    analysis: str


# --- roots -----------------------------------------------------------------------------------


def root_id(connection: apsw.Connection, root: Root) -> int:
    """Id of a root, which is entered if it is new (in a write transaction)."""
    found = find_root(connection, root)
    if found is not None:
        return found
    connection.execute("INSERT INTO root (path, scope) VALUES (?, ?)", (root.path, root.scope))
    return connection.last_insert_rowid()


def find_root(connection: apsw.Connection, root: Root) -> int | None:
    """Id of a root; None where it was never entered."""
    found: int | None = connection.execute("SELECT id FROM root WHERE path = ?", (root.path,)).get
    return found


def scanned(connection: apsw.Connection, root: Root) -> int | None:
    """Id of a root that has been scanned to the end; None where it never was."""
    found: int | None = connection.execute(
        "SELECT id FROM root WHERE path = ? AND scanned IS NOT NULL", (root.path,)
    ).get
    return found


def roots_of(connection: apsw.Connection, roots: Iterable[Root]) -> dict[int, Root]:
    """The roots that the index knows, by id."""
    ids = ((find_root(connection, root), root) for root in roots)
    return {id_: root for id_, root in ids if id_ is not None}


def finish_scan(
    connection: apsw.Connection, root: Root, now: float, problems: Iterable[FileProblem]
) -> None:
    """A scan is complete: remember it, and the files that are no documents."""
    id_ = root_id(connection, root)
    connection.execute("UPDATE root SET scanned = ? WHERE id = ?", (now, id_))
    connection.execute("DELETE FROM problem WHERE root = ?", (id_,))
    connection.executemany(
        "INSERT OR REPLACE INTO problem (root, path, code, message) VALUES (?, ?, ?, ?)",
        [(id_, problem.path, problem.code, problem.message) for problem in problems],
    )


# --- keeping up with the files -----------------------------------------------------------------


def known(connection: apsw.Connection, root: Root) -> dict[str, Known]:
    """Every file of a root that the index has, by its path below the root."""
    id_ = find_root(connection, root)
    rows = connection.execute(
        "SELECT path, id, sha256, mtime_ns, ctime_ns, size, inode, written_by, "
        "written_in, analysis FROM document WHERE root = ?",
        (id_,),
    )
    return {
        path: Known(doc, sha256, Signature(mtime, ctime, size, inode), Writer(by, session), how)
        for path, doc, sha256, mtime, ctime, size, inode, by, session, how in rows
    }


def put(connection: apsw.Connection, root: Root, rows: Sequence[Row]) -> None:
    """Store rows, in place of what was there under their paths."""
    id_ = root_id(connection, root)
    remove(connection, root, [row.document.relative_path for row in rows])
    marks = ", ".join("?" * len(COLUMNS))
    insert = f"INSERT INTO document ({', '.join(COLUMNS)}) VALUES ({marks})"  # noqa: S608 - constants
    for row in rows:
        connection.execute(insert, values(id_, row))
        terms = row.analysed
        connection.execute(
            "INSERT INTO document_terms (rowid, root, name, description, body, keywords) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (
                connection.last_insert_rowid(),
                f"r{id_}",
                terms.name,
                terms.description,
                terms.body,
                terms.keywords,
            ),
        )


def remove(connection: apsw.Connection, root: Root, paths: Iterable[str]) -> None:
    """Forget files of a root."""
    id_ = root_id(connection, root)
    connection.executemany(
        "DELETE FROM document WHERE root = ? AND path = ?", [(id_, path) for path in paths]
    )


def touch(connection: apsw.Connection, changed: Iterable[tuple[int, Signature]]) -> None:
    """Files whose bytes are the same and whose signature is not."""
    connection.executemany(
        "UPDATE document SET mtime_ns = ?, ctime_ns = ?, size = ?, inode = ?, modified = ? "
        "WHERE id = ?",
        [(s.mtime_ns, s.ctime_ns, s.size, s.inode, s.mtime_ns / 1e9, doc) for doc, s in changed],
    )


# --- searching -----------------------------------------------------------------------------------


def candidates(
    connection: apsw.Connection,
    roots: Roots,
    terms: Sequence[str],
    limit: int = MAX_CANDIDATES,
) -> Candidates:
    """Documents that hold any of `terms`, at most `limit`, and the figures of all documents of
    these roots."""
    unique = list(dict.fromkeys(term for term in terms if term))
    if not unique or not roots:
        return Candidates((), corpus(connection, roots, None))
    hits = [
        id_
        for (id_,) in connection.execute(
            "SELECT rowid FROM document_terms WHERE document_terms MATCH ? AND rank MATCH ? "
            "ORDER BY rank LIMIT ?",
            (_match(roots, unique), FIELD_WEIGHTS, limit + 1),
        )
    ]
    frequencies = None
    if len(hits) > limit:
        frequencies = {term: _frequency(connection, roots, term) for term in unique}
    documents = fetch(connection, roots, hits[:limit])
    return Candidates(tuple(documents), corpus(connection, roots, frequencies))


def corpus(
    connection: apsw.Connection, roots: Roots, frequencies: Mapping[str, int] | None
) -> Corpus:
    """Figures of all documents of these roots."""
    documents, name, description, body, keywords = connection.execute(
        "SELECT coalesce(sum(documents), 0), coalesce(sum(name_terms), 0), "
        "coalesce(sum(description_terms), 0), coalesce(sum(body_terms), 0), "
        "coalesce(sum(keyword_terms), 0) FROM root WHERE id IN (SELECT value FROM json_each(?))",
        (_list(roots),),
    ).get
    return Corpus(documents, name, description, body, keywords, frequencies)


def fetch(connection: apsw.Connection, roots: Roots, ids: Sequence[int]) -> list[IndexedDocument]:
    """Documents by id, in the order of `ids`."""
    rows = connection.execute(
        f"SELECT {HANDED_OUT} FROM document "  # noqa: S608 - constants
        "WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    by_id = {row[0]: _document(row, roots) for row in rows}
    return [by_id[id_] for id_ in ids if id_ in by_id]


def recent(
    connection: apsw.Connection, roots: Roots, limit: int, excluded: Collection[str] = ()
) -> list[IndexedDocument]:
    """The most recently changed documents, newest first."""
    ids = [
        id_
        for (id_,) in connection.execute(
            "SELECT id FROM document WHERE root IN (SELECT value FROM json_each(?)) "
            "ORDER BY modified DESC, path, root LIMIT ?",
            (_list(roots), limit + len(excluded)),
        )
    ]
    documents = fetch(connection, roots, ids)
    return [doc for doc in documents if doc.document.path not in excluded][:limit]


def _match(roots: Roots, terms: Sequence[str]) -> str:
    """Terms hold neither quotes nor white space (text/analyzer.py); quoting all the same."""
    where = " OR ".join(f'"r{id_}"' for id_ in roots)
    any_of = " OR ".join('"' + term.replace('"', '""').replace("\0", "") + '"' for term in terms)
    return f"(root : ({where})) AND ({{name description body keywords}} : ({any_of}))"


def _frequency(connection: apsw.Connection, roots: Roots, term: str) -> int:
    count: int = connection.execute(
        "SELECT count(*) FROM document_terms WHERE document_terms MATCH ?",
        (_match(roots, [term]),),
    ).get
    return count


def _document(row: tuple[Any, ...], roots: Roots) -> IndexedDocument:
    try:
        return indexed(row, roots[row[1]])
    except (ChecksumError, KeyError, ValueError, TypeError):
        # Handled like any other damage: set aside and built anew from the files (D44).
        raise apsw.CorruptError("a row of the index is not what was stored") from None


def _list(roots: Roots) -> str:
    return json.dumps(list(roots))


# --- listing -------------------------------------------------------------------------------------


@frozen
class Page:
    """A page of documents, newest first."""

    found: tuple[IndexedDocument, ...]
    total: int
    cursor: str | None


class BadCursorError(ValueError):
    """A cursor that we never gave out."""


def page(connection: apsw.Connection, roots: Roots, cursor: str | None, limit: int) -> Page:
    """Documents by change time, newest first, then by path: stable while files come and go.
    Raises `BadCursorError`."""
    after = (float("inf"), "", 0) if cursor is None else _position(cursor)
    ids = [
        (modified, path, root, id_)
        for modified, path, root, id_ in connection.execute(
            "SELECT modified, path, root, id FROM document "
            "WHERE root IN (SELECT value FROM json_each(?)) "
            "AND (modified < ? OR (modified = ? AND (path, root) > (?, ?))) "
            "ORDER BY modified DESC, path, root LIMIT ?",
            (_list(roots), after[0], after[0], after[1], after[2], limit + 1),
        )
    ]
    total = corpus(connection, roots, None).documents
    more = len(ids) > limit
    ids = ids[:limit]
    documents = fetch(connection, roots, [id_ for *_, id_ in ids])
    return Page(tuple(documents), total, _cursor(ids[-1][:3]) if more and ids else None)


def by_path(connection: apsw.Connection, root: Root, path: str) -> IndexedDocument | None:
    """The document of a file; None where the index has none."""
    id_ = find_root(connection, root)
    if id_ is None:
        return None
    row = connection.execute(
        f"SELECT {HANDED_OUT} FROM document WHERE root = ? AND path = ?",  # noqa: S608
        (id_, path),
    ).fetchone()
    return None if row is None else _document(row, {id_: root})


def newest(connection: apsw.Connection, root: Root, limit: int) -> list[tuple[str, str, str]]:
    """Path, title and description of a root's documents, newest first."""
    rows = connection.execute(
        "SELECT path, title, description FROM document WHERE root = ? "
        "ORDER BY modified DESC, path LIMIT ?",
        (find_root(connection, root), limit),
    )
    return [(str(path), str(title), str(description)) for path, title, description in rows]


def problems(connection: apsw.Connection, roots: Roots, limit: int) -> list[FileProblem]:
    """What is the matter with files, at most `limit`: those that are no documents first."""
    found = [
        FileProblem(path, code, message)
        for path, code, message in connection.execute(
            "SELECT path, code, message FROM problem "
            "WHERE root IN (SELECT value FROM json_each(?)) ORDER BY path LIMIT ?",
            (_list(roots), limit),
        )
    ]
    for root, path, listed in connection.execute(
        "SELECT root, path, problems FROM document "
        "WHERE root IN (SELECT value FROM json_each(?)) AND problems <> '[]' ORDER BY path LIMIT ?",
        (_list(roots), limit),
    ):
        for code, message in json.loads(listed):
            found.append(FileProblem(roots[root].absolute(path), code, message))
    return found[:limit]


def _cursor(position: tuple[float, str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode("ascii")


def _position(cursor: str) -> tuple[float, str, int]:
    try:
        modified, path, root = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii")))
        position = (float(modified), str(path), int(root))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise BadCursorError(cursor) from None
    return position
