"""Memory roots, and the paths that lie in them (memory.md M2, M4; I23, D61).

A root is a trusted base folder (the user's data folder: links in its own path are the user's
business) and a path of ours below it, in which no link is followed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from oncue.memory import names
from oncue.memory.workspace import local_path
from oncue_protocol.base import Origin, Scope, Trust
from oncue_protocol.errors import OutsideRoots


@frozen
class Root:
    """One folder of memory files."""

    base: str
    """Absolute path of the trusted folder."""
    below: tuple[str, ...]
    """Components of ours below it; opened one by one, no link followed."""
    scope: Scope
    origin: Origin = "mine"
    trust: Trust = "trusted"
    writable: bool = True

    @property
    def path(self) -> str:
        """Absolute path of the folder."""
        return "/".join((self.base.rstrip("/"), *self.below)) or "/"

    @property
    def home(self) -> Root:
        """The folder around it, which holds trash, provenance and `workspace.json`."""
        return Root(self.base, self.below[:-1], self.scope, self.origin, self.trust, self.writable)

    def absolute(self, relative: str) -> str:
        """Absolute path of a file of this root."""
        return f"{self.path}/{relative}"

    def relative(self, path: str) -> str | None:
        """`path` below this root with `/` between components; None where it lies elsewhere.
        Purely lexical: whether links lead out is seen when it is opened."""
        for base in {self.path, os.path.realpath(self.path)}:
            if path.startswith(base + "/"):
                return path[len(base) + 1 :]
        return None


def user_root(data: Path) -> Root:
    """Memories for all workspaces."""
    return Root(str(data), ("user", "memory"), "user")


def project_root(data: Path, key: str) -> Root:
    """Memories of one workspace; `key` as made by workspace.py."""
    return Root(str(data), ("projects", key, "memory"), "project")


def locate(roots: Sequence[Root], path: str, *, new_name: bool = False) -> tuple[Root, str]:
    """Root and relative path that a client's `path` (a `file:` URI, absolute, or relative to the
    first root) means. With `new_name` its name has to be fit for any system. Raises
    `OutsideRoots` for anything that leaves the roots (1004)."""
    text = path if not path.casefold().startswith("file:") else local_path(path)
    if text is None or "\0" in text:
        raise _outside(path, "is no local path")
    if not text.startswith("/"):
        if not roots or ":" in text[:2]:
            raise _outside(path, "lies in no memory root")
        root, relative = roots[0], text
    else:
        for root in roots:
            found = root.relative(text)
            if found is not None:
                relative = found
                break
        else:
            raise _outside(path, "lies in no memory root")
    problem = names.problem_with(relative) if new_name else names.way_out(relative)
    if problem is not None:
        raise _outside(path, problem)
    return root, relative


def _outside(path: str, why: str) -> OutsideRoots:
    printable = "".join(c if c.isprintable() else "\ufffd" for c in path[:200])
    return OutsideRoots(f"path {printable!r} {why}: name a .md file inside the memory roots")
