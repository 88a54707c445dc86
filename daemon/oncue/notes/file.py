"""The notes of one session, in their file (blocking; X23, X25, I19-I23).

Read and hash, work with no lock, read and hash again, merge by section, write beside, sync; then
one rename after a last look. A file in CRLF or UTF-16 stays so. What is damaged (headings gone) is
put back from the newest version; what cannot be kept as it was is kept in a copy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from oncue import safe_files
from oncue.notes import copies, places
from oncue.notes.budget import condensed
from oncue.notes.document import Document, new, parse, view
from oncue.notes.edits import apply, check_shrink
from oncue.notes.merge import merge, restored
from oncue.notes.places import NotesFolder, stem_of, write_beside
from oncue.notes.template import DEFAULT, Template
from oncue.notes_ports import (
    NoteBudgets,
    NotesMovedError,
    NotesRefusedError,
    NotesView,
    SectionEdit,
)
from oncue.safe_files import MAX_FILE_BYTES, UnfitFileError, printable
from oncue.text import secrets
from oncue.text.decoding import Encoding, Problem, decode, encode


@frozen
class _Found:
    """The file as it is now."""

    data: bytes | None
    """None: there is none."""
    document: Document
    encoding: Encoding = "utf-8"
    problems: tuple[Problem, ...] = ()
    is_exact: bool = True
    """Whether its bytes can be had again from its text."""

    @property
    def revision(self) -> str | None:
        return None if self.data is None else safe_files.revision(self.data)


class NotesFile:
    """`notes_ports.Notes` for one session."""

    def __init__(self, folder: NotesFolder, session_id: str, template: Template = DEFAULT) -> None:
        self.folder = folder
        self.template = template
        self._stem = stem_of(session_id)
        self._name = f"{self._stem}.md"
        self._is_tidy = False

    @property
    def path(self) -> str:
        """Absolute path of the file, whether it exists or not."""
        return f"{self.folder.path}/{self._name}"

    def read(self, budgets: NoteBudgets) -> NotesView:
        """The notes now; what is damaged shown as it will be repaired. Raises OSError."""
        if not self._is_tidy:
            self._is_tidy = True
            places.tidy(self.folder)
        found = self._found()
        return view(found.document, found.revision, budgets)

    def problems(self) -> tuple[Problem, ...]:
        """What is odd about the file as it is now: encoding, NUL characters, sections gone."""
        found = self._found()
        return found.problems

    def prepare(
        self, edits: Sequence[SectionEdit], base: NotesView, budgets: NoteBudgets
    ) -> PreparedNotes:
        """See `notes_ports.Notes`. Raises `NotesRefusedError`, `OSError`."""
        before = parse(base.text, self.template)
        cleaned = [evolve(edit, new_text=secrets.redact(edit.new_text)) for edit in edits]
        ours = apply(before, cleaned)
        check_shrink(before, ours, budgets)
        found = self._found()
        if ours.contents() == before.contents():
            return PreparedNotes(self, found, None, None)
        theirs = found.document
        if found.data is None and base.revision is not None:
            theirs = before  # deleted during the run: nothing that was in it is lost
        merged = merge(before, ours, theirs)
        within = condensed(merged.document, budgets)
        document = _without_secrets(within.document)
        data = encode(document.text, found.encoding)
        if len(data) > MAX_FILE_BYTES:
            raise NotesRefusedError(
                f"the notes would have {len(data)} bytes, more than {MAX_FILE_BYTES}: "
                f"shorten what you added to {printable(self.path)}"
            )
        conflict = None
        if merged.conflicts:
            conflict = secrets.redact(merged.conflict_text(self._name)).encode("utf-8", "replace")
        prepared = PreparedNotes(self, found, data if data != found.data else None, conflict)
        prepared.write(_older_text(within.removed))
        return prepared

    def archive(self) -> None:
        """Put the notes away as their newest version: the conversation was cleared (X8). Raises
        OSError; then they are still in place."""
        data = self._found().data
        if data is None:
            return
        copies.add_version(self.folder, self._stem, data)
        with self.folder.opened() as folder, safe_files.exclusively(folder):
            if self.bytes_now(folder) == data:  # else somebody has saved it meanwhile: it stays
                os.unlink(self._name, dir_fd=folder)
                os.fsync(folder)

    def purge(self) -> tuple[str, ...]:
        """Remove every copy of these notes; absolute paths of what was removed. Raises OSError."""
        return places.remove(self.folder, self._stem)

    # --- for PreparedNotes -----------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def stem(self) -> str:
        return self._stem

    def bytes_now(self, folder: int) -> bytes | None:
        """What the file holds; None where there is none. Raises OSError."""
        try:
            return safe_files.read_at(folder, self._name)[0]
        except FileNotFoundError:
            return None
        except UnfitFileError as error:
            raise OSError(
                0,
                f"notes file {printable(self.path)} {error.message}: move it away, or make it a "
                "file of your own",
            ) from None

    def _found(self) -> _Found:
        try:
            with self.folder.opened() as folder:
                data = self.bytes_now(folder)
        except FileNotFoundError:
            data = None
        if data is None:
            return _Found(None, new(self.template))
        text, encoding, problems = _decoded(data)
        document = parse(text, self.template)
        if document.missing:
            problems += (Problem("sections", f"sections are gone: {', '.join(document.missing)}"),)
        is_exact = encode(text, encoding) == data
        return _Found(data, self._repaired(document), encoding, problems, is_exact)

    def _repaired(self, document: Document) -> Document:
        reference = None
        if document.missing:
            version = copies.newest_version(self.folder, self._stem)
            if version is not None:
                reference = parse(_decoded(version)[0], self.template)
        return restored(document, reference)


class PreparedNotes:
    """`notes_ports.Prepared`."""

    def __init__(
        self, file: NotesFile, found: _Found, data: bytes | None, conflict: bytes | None
    ) -> None:
        self._file = file
        self._found = found
        self._data = data
        self._conflict = conflict
        self._older = ""
        self._temporary: tuple[str, int] | None = None
        self._new_copies: list[str] = []
        self._conflict_name: str | None = None

    @property
    def changed(self) -> bool:
        """Whether publishing changes the file."""
        return self._data is not None

    @property
    def revision(self) -> str:
        """What the file's revision will be; empty where there is no file and none is written."""
        if self._data is not None:
            return safe_files.revision(self._data)
        return self._found.revision or ""

    @property
    def conflict_path(self) -> str | None:
        """Copy that holds what lost against the user's own edit (X23)."""
        if self._conflict_name is None:
            return None
        return f"{self._file.folder.path}/{self._conflict_name}"

    def write(self, older: str) -> None:
        """Write and sync beside the file. Raises OSError; then nothing is left of it."""
        self._older = older
        if self._data is None and self._conflict is None:
            return
        try:
            with self._file.folder.made() as folder:
                if self._conflict is not None:
                    self._conflict_name = self._copy(folder, self._conflict)
                if self._data is not None:
                    if self._found.data is not None and not self._found.is_exact:
                        self._copy(folder, _harmless(self._found.data))
                    self._temporary = write_beside(folder, self._file.stem, self._data)
        except BaseException:
            self.discard()
            raise

    def _copy(self, folder: int, data: bytes) -> str:
        name, is_new = copies.add_conflict(folder, self._file.stem, data)
        if is_new:
            self._new_copies.append(name)
        return name

    def publish(self) -> str:
        """See `notes_ports.Prepared`. Raises `NotesMovedError`, OSError; then the file is as it
        was."""
        folder_of = self._file.folder.made if self.changed else self._file.folder.opened
        try:
            with folder_of() as folder, _exclusively(folder, self._file.path):
                if self._file.bytes_now(folder) != self._found.data:
                    raise self._moved()
                if self._data is not None and self._temporary is not None:
                    self._replace(folder, self._data, *self._temporary)
        except (FileNotFoundError, FileExistsError):
            if self.changed or self._found.data is not None:
                raise self._moved() from None
        self._close()
        return self.revision

    def _moved(self) -> NotesMovedError:
        return NotesMovedError(f"{printable(self._file.path)} changed while it was merged")

    def _replace(self, folder: int, data: bytes, temporary: str, fd: int) -> None:
        file, before = self._file, self._found.data
        if before is not None:
            copies.add_version(file.folder, file.stem, _harmless(before))
        if self._older:
            copies.add_older(folder, file.stem, self._older)
        if before is None:
            safe_files.place(folder, temporary, file.name)
        else:
            self._swap(folder, temporary, before)
        os.close(fd)
        self._temporary = None
        os.fsync(folder)
        with contextlib.suppress(OSError):  # published: a missing copy does not undo that
            copies.add_version(file.folder, file.stem, data)

    def _swap(self, folder: int, temporary: str, before: bytes) -> None:
        """Take the place of the file. Who saved since the last look gets it back."""
        name = self._file.name
        if not safe_files.exchange(folder, temporary, name):
            if self._file.bytes_now(folder) != before:
                raise self._moved()
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            return
        try:
            is_same = safe_files.read_at(folder, temporary)[0] == before
        except (OSError, UnfitFileError):
            is_same = False
        if not is_same:
            self._swap_back(folder, temporary)
            raise self._moved()
        with contextlib.suppress(OSError):  # a leftover that the next start removes
            os.unlink(temporary, dir_fd=folder)

    def _swap_back(self, folder: int, temporary: str) -> None:
        """Give the file back to whoever saved it a moment ago. Who saved again upon ours in
        between had not seen that: this save is kept beside."""
        with contextlib.suppress(FileNotFoundError):
            safe_files.exchange(folder, temporary, self._file.name)
        with contextlib.suppress(OSError, UnfitFileError):
            over = safe_files.read_at(folder, temporary)[0]
            if over != self._data:
                copies.add_conflict(folder, self._file.stem, _harmless(over))

    def discard(self) -> None:
        """Remove what was prepared. Never raises."""
        with contextlib.suppress(OSError), self._file.folder.opened() as folder:
            names = [*self._new_copies, *([self._temporary[0]] if self._temporary else [])]
            for name in names:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder)
        self._close()

    def _close(self) -> None:
        """From here on nothing is ours to remove."""
        if self._temporary is not None:
            os.close(self._temporary[1])
            self._temporary = None
        self._new_copies = []


@contextlib.contextmanager
def _exclusively(folder: int, path: str) -> Iterator[None]:
    try:
        with safe_files.exclusively(folder):
            yield
    except BlockingIOError as error:
        raise OSError(
            error.errno, f"another process holds the folder of {printable(path)}"
        ) from None


def _decoded(data: bytes) -> tuple[str, Encoding, tuple[Problem, ...]]:
    """Text of the file. Most of it UTF-8 and a little not, it was torn or patched: then it is no
    Latin-1, which would garble every other letter."""
    text, encoding, problems = decode(data)
    if encoding == "latin-1":
        patched = data.decode("utf-8", "replace")
        odd = patched.count("\ufffd")
        good = sum(character > "\x7f" for character in patched) - odd
        if good >= odd or (odd == 1 and patched.endswith("\ufffd")):
            return patched, "utf-8", (Problem("encoding", "UTF-8 with bytes that are none"),)
    return text, encoding, problems


def _without_secrets(document: Document) -> Document:
    """X25: in every part of the file, but headings and lines in italics, which are ours."""
    found = document.contents()
    changed = {t: clean for t, text in found.items() if (clean := secrets.redact(text)) != text}
    if changed:
        document = document.with_contents(changed)
    return evolve(
        document,
        preamble=secrets.redact(document.preamble),
        sections=tuple(
            section if section.is_own else evolve(section, body=secrets.redact(section.body))
            for section in document.sections
        ),
    )


def _harmless(data: bytes) -> bytes:
    """The user's bytes for a copy of ours: as they are, unless they hold a secret."""
    text, encoding, _ = _decoded(data)
    clean = secrets.redact(text)
    return data if clean == text else encode(clean, encoding)


def _older_text(removed: dict[str, str]) -> str:
    return "".join(f"# {title}\n\n{text}\n\n" for title, text in removed.items() if text.strip())
