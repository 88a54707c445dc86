"""Memory files on disk: read and listed so that no link, pipe or giant gets in the way.

What safe_files.py does, for the roots of memory (memory.md M4, M5; T1, I23). Everything here
blocks: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator

from attrs import frozen

from oncue import safe_files
from oncue.memory import names
from oncue.memory.roots import Root
from oncue.safe_files import FOLDER as FOLDER
from oncue.safe_files import MAX_FILE_BYTES as MAX_FILE_BYTES
from oncue.safe_files import TEMPORARY as TEMPORARY
from oncue.safe_files import Signature as Signature
from oncue.safe_files import UnfitFileError as UnfitFileError
from oncue.safe_files import judge as judge
from oncue.safe_files import printable as printable
from oncue.safe_files import read_at as read_at
from oncue.safe_files import revision as revision

MESSAGES = {
    **safe_files.MESSAGES,
    "tooLarge": f"{safe_files.MESSAGES['tooLarge']}: found by its name only",
    "name": "has a name that is not valid UTF-8",
    "tooDeep": f"lies more than {names.MAX_DEPTH} folders deep",
}


@frozen
class FileProblem:
    """A file that cannot be taken as a memory, or only in part (D53)."""

    path: str
    """Absolute, printable."""
    code: str
    """`link`, `hardLink`, `notRegular`, `owner`, `tooLarge`, `unreadable`, `name`, `tooDeep`,
    `encoding`, `nul`, `yaml`, `alias`, `tag`, `depth`, `tooLong`, `unclosed`, `duplicateKey`."""
    message: str


@frozen
class Listed:
    """A file found by `scan`."""

    relative: str
    signature: Signature
    unfit: str | None = None
    """Code of what keeps it from being read; `tooLarge` is indexed by name."""


@contextlib.contextmanager
def opened_folder(root: Root, parts: tuple[str, ...] = ()) -> Iterator[int]:
    """Descriptor of a folder below the root. Raises OSError where it is missing or a link, and
    `UnfitFileError` where it is not ours."""
    with safe_files.opened_folder(root.base, (*root.below, *parts)) as folder:
        yield folder


@contextlib.contextmanager
def made_folder(root: Root, parts: tuple[str, ...] = ()) -> Iterator[int]:
    """As `opened_folder`, making what is missing (0700)."""
    with safe_files.made_folder(root.base, (*root.below, *parts)) as folder:
        yield folder


def read(root: Root, relative: str) -> tuple[bytes, Signature]:
    """Bytes of a file of this root. Raises `UnfitFileError`, and FileNotFoundError where there
    is none."""
    *parents, name = relative.split("/")
    try:
        with opened_folder(root, tuple(parents)) as folder:
            return read_at(folder, name)
    except OSError as error:
        raise safe_files.unfit(error) from None


def scan(root: Root) -> Generator[Listed, None, None]:
    """Every Markdown file of a root, in no order, unfit ones too. Never raises for one of them.
    Raises FileNotFoundError where there is no such root, `UnfitFileError` where it is not ours.

    A generator, so that whoever calls decides how long a step takes.
    """
    try:
        with opened_folder(root) as folder:
            yield from _scan(folder, "", 1)
    except OSError as error:
        raise safe_files.unfit(error) from None


def _scan(folder: int, prefix: str, depth: int) -> Iterator[Listed]:
    below: list[str] = []
    try:
        entries = os.scandir(folder)
    except OSError:
        yield Listed(prefix.rstrip("/"), Signature(0, 0, 0, 0), "unreadable")
        return
    with entries:
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            is_memory = name.casefold().endswith(names.SUFFIXES)
            try:
                if not is_memory:
                    if entry.is_dir(follow_symlinks=False):
                        below.append(name)
                    continue
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if depth == 1 and name == names.INDEX_NAME:
                continue
            signature = Signature.of(found)
            code = judge(found) if is_unicode(name) else "name"
            yield Listed(prefix + name, signature, code)
    for name in below:
        if depth >= names.MAX_DEPTH:
            yield Listed(f"{prefix}{name}", Signature(0, 0, 0, 0), "tooDeep")
            continue
        try:
            fd = os.open(name, FOLDER, dir_fd=folder)
        except OSError:
            yield Listed(f"{prefix}{name}", Signature(0, 0, 0, 0), "unreadable")
            continue
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                yield Listed(f"{prefix}{name}", Signature(0, 0, 0, 0), "owner")
            else:
                yield from _scan(fd, f"{prefix}{name}/", depth + 1)
        finally:
            os.close(fd)


def is_unicode(name: str) -> bool:
    """Whether a name can be said in a reply (D33)."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
