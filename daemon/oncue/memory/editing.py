"""One memory written or thrown away: files only, in a worker thread (memory.md M4).

Everything happens under the root's lock, so of two processes that write the same memory one wins
and the other gets the conflict.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence

from attrs import frozen

from oncue.memory import files, names, provenance, trash, writing
from oncue.memory.document import MAX_DESCRIPTION, MAX_TITLE, describe, one_line, title_key
from oncue.memory.files import MAX_FILE_BYTES, Signature, UnfitFileError
from oncue.memory.front_matter import (
    FrontMatterUnreadableError,
    parse,
    render,
    update,
)
from oncue.memory.manifest import Entry, Manifest, manifest
from oncue.memory.provenance import Writer
from oncue.memory.roots import Root
from oncue.memory.trash import Thrown
from oncue.memory.workspace import Workspace
from oncue.memory.yaml_text import Value
from oncue_protocol import MemoryWriteParams
from oncue_protocol.errors import (
    InvalidParams,
    LimitExceeded,
    OutsideRoots,
    RequestFailed,
    RevisionConflict,
    StoreUnavailable,
)

MAX_SAME_NAME = 100
"""Memories whose titles give one slug; a hundred of them is a writer in a loop."""


@frozen
class Written:
    """What is on disk now."""

    relative: str
    data: bytes
    signature: Signature
    unchanged: bool = False
    """It was there already: nothing was written."""


def write(
    root: Root, relative: str | None, params: MemoryWriteParams, writer: Writer, now: float
) -> Written:
    """Write what `params` say, to `relative` or a name made from the title. Raises
    `RevisionConflict`, `LimitExceeded`, `RequestFailed` (front matter that cannot be parsed:
    nothing is changed), `OutsideRoots` (a link), `StoreUnavailable` (disk)."""
    title = one_line(params.title, MAX_TITLE)
    if not title:
        raise InvalidParams("params.title: is empty", path="params.title")
    with refused(root), writing.locked(root):
        if relative is None:
            relative = _free_name(root, title)
        before, seen = writing.current(root, relative)
        if before is not None and _says_the_same(root, relative, before, params, title):
            return Written(relative, before, _of(seen), unchanged=True)
        path = root.absolute(relative)
        writing.check_revision(path, before, params.if_revision)
        data = _bytes(path, before, params, title, now)
        if len(data) > MAX_FILE_BYTES:
            raise LimitExceeded(
                f"the memory would be {len(data)} bytes; at most {MAX_FILE_BYTES}: split it",
                limit="memoryFileBytes",
                value=MAX_FILE_BYTES,
                sent=len(data),
            )
        provenance.record(root, relative, files.revision(data), writer, now)
        return Written(relative, data, writing.replace(root, relative, data, seen))


def throw(root: Root, relative: str, if_revision: str | None, now: float) -> Thrown:
    """Move a memory to the trash. Raises `RevisionConflict`, `RequestFailed` where there is
    none."""
    with refused(root), writing.locked(root):
        revision = existing_revision(root, relative)
        if if_revision is not None and if_revision != revision:
            raise RevisionConflict(
                f"{root.absolute(relative)} was changed since it was read: look again, then forget",
                revision=revision,
            )
        thrown = trash.throw(root, relative, now, revision)
        # Whatever comes to lie there later is not the model's.
        provenance.record(root, relative, "", provenance.HUMAN, now)
        return thrown


def existing_revision(root: Root, relative: str) -> str:
    """Revision of a file that is there; '' for one that is too large to be read."""
    try:
        return files.revision(files.read(root, relative)[0])
    except FileNotFoundError:
        raise missing(root, relative) from None
    except UnfitFileError as error:
        if error.code == "tooLarge":
            return ""
        raise


def missing(root: Root, relative: str) -> RequestFailed:
    """The error for a memory that is not there."""
    path = files.printable(root.absolute(relative))
    return RequestFailed(f"there is no memory {path}", detail={"reason": "noSuchMemory"})


def restore(root: Root, name: str) -> str:
    """Put a thrown memory back; its path below the root."""
    with refused(root), writing.locked(root):
        try:
            return trash.restore(root, name)
        except FileNotFoundError:
            raise RequestFailed(
                f"{files.printable(name)} is not in the trash", detail={"reason": "noSuchMemory"}
            ) from None


def write_manifest(root: Root, entries: Sequence[Entry]) -> Manifest:
    """Bring `MEMORY.md` up to date (M1)."""
    made = manifest(entries)
    data = made.text.encode("utf-8", "replace")
    with refused(root), writing.locked(root):
        try:
            before, seen = writing.current(root, names.INDEX_NAME)
        except UnfitFileError as error:
            if error.code != "tooLarge":
                raise
            before, seen = None, writing.signature(root, names.INDEX_NAME)
        if before != data:
            writing.replace(root, names.INDEX_NAME, data, seen)
    return made


def write_workspace(root: Root, workspace: Workspace) -> bool:
    """Say in the project's folder which workspace it belongs to (M2); False where it says
    another: then two workspaces have one key, or the folder was moved by hand."""
    note = {
        "version": 1,
        "key": workspace.key,
        "path": workspace.path,
        "identity": workspace.identity,
    }
    data = json.dumps(note, indent=2).encode() + b"\n"
    with refused(root), writing.locked(root), files.made_folder(root.home) as home:
        try:
            before, _ = files.read_at(home, "workspace.json")
        except FileNotFoundError:
            writing.replace_at(home, "workspace.json", data, None)
            return True
        except UnfitFileError:
            return False
    with contextlib.suppress(ValueError, RecursionError):
        known = json.loads(before)
        return isinstance(known, dict) and known.get("identity") == workspace.identity
    return False


class refused(contextlib.AbstractContextManager[None]):  # noqa: N801 - reads as a statement
    """What the file system refuses, in the protocol's words."""

    def __init__(self, root: Root) -> None:
        self.root = root

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnfitFileError):
            text = f"the file below {files.printable(self.root.path)} {error.message}"
            if error.code in ("link", "hardLink", "owner"):
                raise OutsideRoots(text, detail={"reason": error.code}) from None
            raise RequestFailed(text, detail={"reason": error.code}) from None
        if isinstance(error, OSError):
            raise StoreUnavailable(
                f"the memory folder {files.printable(self.root.path)} cannot be written "
                f"({error.strerror or type(error).__name__}): nothing was changed",
                reason=_REASONS.get(error.errno or 0, "ioError"),
            ) from None


_REASONS = {28: "full", 122: "full", 30: "readOnly", 13: "readOnly", 1: "readOnly"}


def _free_name(root: Root, title: str) -> str:
    """The name for a new memory: its slug, or with a number where another title has that."""
    base = names.slug(title)
    for number in range(1, MAX_SAME_NAME + 1):
        relative = f"{base if number == 1 else names.numbered(base, number)}.md"
        try:
            data, _ = writing.current(root, relative)
        except UnfitFileError:
            continue
        if data is None or describe(parse(data), relative, root.scope).title == title:
            return relative
    raise LimitExceeded(
        f"more than {MAX_SAME_NAME} memories have this name: choose another title",
        limit="memoriesOfOneName",
        value=MAX_SAME_NAME,
        sent=MAX_SAME_NAME + 1,
    )


def _says_the_same(
    root: Root, relative: str, before: bytes, params: MemoryWriteParams, title: str
) -> bool:
    """The same write again (its reply was lost): answered, not written twice (D62)."""
    there = describe(parse(before), relative, root.scope)
    return (
        there.title == title
        and there.description == one_line(params.description, MAX_DESCRIPTION)
        and there.type == params.type
        and there.body == _clean(params.body)
        and (not params.keywords or there.keywords == params.keywords)
        and (not params.usage_scenarios or there.usage_scenarios == params.usage_scenarios)
    )


def _bytes(
    path: str, before: bytes | None, params: MemoryWriteParams, title: str, now: float
) -> bytes:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    fields: dict[str, Value] = {
        "name": title,
        "description": one_line(params.description, MAX_DESCRIPTION),
        "type": params.type,
    }
    if params.keywords:
        fields["keywords"] = _lines(params.keywords)
    if params.usage_scenarios:
        fields["usage_scenarios"] = _lines(params.usage_scenarios)
    body = _clean(params.body)
    if before is None:
        return render({**fields, "created": stamp, "updated": stamp}, body)
    parsed = parse(before)
    key = title_key(parsed.fields)
    changed: dict[str, Value] = {key: fields.pop("name"), **fields, "updated": stamp}
    try:
        return update(before, changed, body)
    except FrontMatterUnreadableError as error:
        raise RequestFailed(
            f"{files.printable(path)}: {error}: nothing was changed; mend it in an editor",
            detail={"reason": "frontMatter", "problems": [p.code for p in error.problems]},
        ) from None


def _lines(items: Sequence[str]) -> list[str]:
    cleaned = (one_line(item, 200) for item in items)
    return [item for item in cleaned if item][:50]


def _clean(body: str) -> str:
    text = body.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip("\n")
    return text.encode("utf-8", "replace").decode("utf-8")


def _of(seen: Signature | None) -> Signature:
    return seen if seen is not None else Signature(0, 0, 0, 0)
