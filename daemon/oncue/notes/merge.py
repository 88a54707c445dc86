"""Three-way merge of the notes by section (pure; X23, I20, D45-D47).

`base` is what the run read, `ours` what it made of it, `theirs` the file now. A section that only
one side changed is that side's; one that both changed stays as the user has it, and what the run
wrote goes into a conflict copy beside the file. Nothing that the user saved is lost.
"""

from __future__ import annotations

from attrs import frozen

from oncue.notes.document import Document, repaired


@frozen
class Merged:
    """What becomes the file, and what lost."""

    document: Document
    conflicts: dict[str, str]
    """Title → the run's text of a section that the user changed as well."""

    def conflict_text(self, name: str) -> str:
        """The conflict copy, as Markdown; `name`: the file that it lies beside."""
        parts = [
            f"Written by a run while {name} was edited: the file keeps your text of these "
            "sections, and this is what the run would have written. Remove this file when you "
            "have taken from it what you need.\n"
        ]
        parts += [f"# {title}\n\n{text or '(empty)'}\n" for title, text in self.conflicts.items()]
        return "\n".join(parts)


def merge(base: Document, ours: Document, theirs: Document) -> Merged:
    """`theirs` with what `ours` changed and the user did not. Text before the first heading and
    sections of the user's own are always the user's."""
    old, new, now = base.contents(), ours.contents(), theirs.contents()
    taken: dict[str, str] = {}
    conflicts: dict[str, str] = {}
    for title in now:
        before, run, user = old.get(title, ""), new.get(title, ""), now[title]
        if run in (before, user):
            continue
        if user == before:
            taken[title] = run
        else:
            conflicts[title] = run
    return Merged(theirs.with_contents(taken) if taken else repaired(theirs), conflicts)


def restored(document: Document, reference: Document | None) -> Document:
    """`document`, repaired, with the text of sections whose very heading is gone put back from
    `reference`: nobody clears a section by cutting its heading off, damage does (F11)."""
    if reference is None:
        return repaired(document)
    gone = {title: reference.content(title) for title in document.missing}
    return document.with_contents({title: text for title, text in gone.items() if text})
