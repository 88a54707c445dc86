"""Rows of the index: from a file's bytes to a row, and from a row to a document."""

from __future__ import annotations

import json
import zlib
from typing import Any

from attrs import frozen

from oncue.memory import files
from oncue.memory.analyst import Analysed, Analyst
from oncue.memory.document import Described, by_name_only, describe
from oncue.memory.files import Signature
from oncue.memory.front_matter import parse
from oncue.memory.provenance import Writer
from oncue.memory.roots import Root
from oncue.ports import Document
from oncue.text.decoding import Problem


@frozen
class Row:
    """One file, ready to be stored: everything slow is done before a transaction begins."""

    document: Document
    signature: Signature
    problems: tuple[Problem, ...]
    analysis: str
    analysed: Analysed

    @property
    def weight(self) -> int:
        """Bytes to store, for batches of bounded time."""
        return 500 + 2 * len(self.document.body) + len(self.analysed.prepared)


@frozen
class IndexedDocument:
    """A document of the index, and what its analyst left with it."""

    id: int
    document: Document
    analysis: str
    prepared: bytes


def row_of(
    root: Root, path: str, data: bytes, signature: Signature, writer: Writer, analyst: Analyst
) -> Row:
    """The row of a file that was read. Never raises (M5)."""
    parsed = parse(data)
    described = describe(parsed, path, root.scope)
    document = _document(root, path, files.revision(data), signature, described, writer)
    return Row(document, signature, parsed.problems, analyst.version, analyst.analyse(document))


def row_by_name(
    root: Root, path: str, signature: Signature, code: str, writer: Writer, analyst: Analyst
) -> Row:
    """The row of a file that is not read: found by its name only."""
    document = _document(root, path, "", signature, by_name_only(path, root.scope), writer)
    problem = Problem(code, files.MESSAGES[code])
    return Row(document, signature, (problem,), analyst.version, analyst.analyse(document))


def _document(
    root: Root,
    path: str,
    sha256: str,
    signature: Signature,
    described: Described,
    writer: Writer,
) -> Document:
    return Document(
        path=root.absolute(path),
        relative_path=path,
        title=described.title,
        description=described.description,
        type=described.type,
        scope=root.scope,
        body=described.body,
        keywords=described.keywords,
        usage_scenarios=described.usage_scenarios,
        origin=root.origin,
        trust=root.trust,
        written_by=writer.written_by,
        written_in=writer.session,
        sha256=sha256,
        modified=signature.mtime_ns / 1e9,
        size_bytes=signature.size,
    )


COLUMNS = (
    "root", "path", "sha256", "mtime_ns", "ctime_ns", "size", "inode", "modified", "title",
    "description", "type", "keywords", "usage_scenarios", "body", "language", "written_by",
    "written_in", "problems", "analysis", "prepared", "name_length", "description_length",
    "body_length", "keyword_length", "checksum",
)  # fmt: skip


def values(root_id: int, row: Row) -> tuple[Any, ...]:
    """What is bound to COLUMNS."""
    doc, signature, analysed = row.document, row.signature, row.analysed
    keywords = json.dumps(doc.keywords, ensure_ascii=False)
    scenarios = json.dumps(doc.usage_scenarios, ensure_ascii=False)
    lengths = (
        text.count(" ") + 1 if text else 0
        for text in (analysed.name, analysed.description, analysed.body, analysed.keywords)
    )
    return (
        root_id,
        doc.relative_path,
        doc.sha256,
        signature.mtime_ns,
        signature.ctime_ns,
        signature.size,
        signature.inode,
        doc.modified,
        doc.title,
        doc.description,
        doc.type,
        keywords,
        scenarios,
        doc.body,
        analysed.language,
        doc.written_by,
        doc.written_in,
        json.dumps([[p.code, p.message] for p in row.problems], ensure_ascii=False),
        row.analysis,
        analysed.prepared,
        *lengths,
        _checksum(analysed.prepared, doc.relative_path, doc.sha256, doc.title,
                  doc.description, doc.body, keywords, scenarios),
    )  # fmt: skip


HANDED_OUT = (
    "id, root, path, sha256, modified, size, title, description, type, keywords, "
    "usage_scenarios, body, written_by, written_in, analysis, prepared, checksum"
)


class ChecksumError(Exception):
    """A row is not what was stored."""


def indexed(found: tuple[Any, ...], root: Root) -> IndexedDocument:
    """A row of HANDED_OUT as a document. Raises `ChecksumError` where the row is damaged."""
    (
        id_, _, path, sha256, modified, size, title, description, type_, keywords, scenarios,
        body, written_by, written_in, analysis, prepared, checksum,
    ) = found  # fmt: skip
    stored = (path, sha256, title, description, body, keywords, scenarios)
    if checksum != _checksum(prepared, *stored):
        raise ChecksumError
    document = Document(
        path=root.absolute(path),
        relative_path=path,
        title=title,
        description=description,
        type=type_,
        scope=root.scope,
        body=body,
        keywords=tuple(json.loads(keywords)) if keywords != "[]" else (),
        usage_scenarios=tuple(json.loads(scenarios)) if scenarios != "[]" else (),
        origin=root.origin,
        trust=root.trust,
        written_by=written_by,
        written_in=written_in,
        sha256=sha256,
        modified=modified,
        size_bytes=size,
    )
    return IndexedDocument(id_, document, analysis, prepared)


def _checksum(prepared: bytes, *parts: str) -> int:
    return zlib.crc32("\0".join(parts).encode("utf-8", "replace"), zlib.crc32(prepared))
