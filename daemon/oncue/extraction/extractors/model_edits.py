"""The notes while a model edits them, and what it may not do to them (pure; X19-X22, D65, T5).

A model can name a section of the template and give text for it: nothing else of what it says has
any effect. Every call is answered with what came of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import define, field, frozen

from oncue.extraction.extractors.model_prompt import EDIT, over_budget
from oncue.notes_ports import NoteBudgets, NoteSection, NotesView, SectionEdit
from oncue.text import marker, tokens
from oncue_protocol import ToolCall

NOW = "Now"
MAX_EXCESS = 4
"""Times its budget that a section may have: more is no note, it is a runaway answer."""
MAX_SHRINK = 0.3
GUARDED_TOKENS = 200
"""Notes of a few lines may shrink: there one new section is more than 30 %."""
MAX_NAMES = 40

_ARGUMENTS = frozenset({"section", "newText", "oldText"})
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}#(?:[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}=+[ \t]*")


@frozen
class Answer:
    """What the model is told about one of its calls."""

    text: str
    accepted: bool


@define
class Draft:
    """The sections of one run."""

    view: NotesView
    budgets: NoteBudgets
    refused: int = 0
    """Calls of the right tool that were refused."""
    _bodies: dict[str, str] = field(factory=dict)
    _edited: set[str] = field(factory=set)

    def __attrs_post_init__(self) -> None:
        self._bodies = {section.title: section.body for section in self.view.sections}

    @property
    def is_edited(self) -> bool:
        """Whether any edit was accepted, one that changes nothing included."""
        return bool(self._edited)

    def apply(self, call: ToolCall) -> Answer:
        """Carry out one call, or say why not; then nothing is changed."""
        if call.name != EDIT:
            return Answer(f"refused: there is no such tool; the only one is {EDIT}", False)
        problem = self._applied(call.input)
        if problem is not None:
            self.refused += 1
            return Answer(f"refused: {problem}", False)
        return Answer(self._receipt(call.input["section"]), True)

    def edits(self) -> tuple[SectionEdit, ...]:
        """What changed: one whole body a section, in the template's order."""
        return tuple(
            SectionEdit(section.title, self._bodies[section.title])
            for section in self.view.sections
            if self._bodies[section.title] != section.body
            or (section.title == NOW and self._is_changed and NOW in self._edited)
        )

    def objection(self) -> str | None:
        """Why the draft cannot stay as it is; None: it can."""
        if not self._is_changed:
            return None
        now = self._bodies.get(NOW)
        if now is not None and (NOW not in self._edited or not now.strip()):
            return f"section {NOW} was not refreshed although others changed: edit it as well"
        before = sum(section.tokens for section in self.view.sections)
        after = sum(section.tokens for section in self._sections())
        is_over = before > self.budgets.max_total_tokens or any(
            section.tokens > self.budgets.max_section_tokens for section in self.view.sections
        )
        if before and not after:
            return "the notes would be empty: put back what is still true"
        if before >= GUARDED_TOKENS and not is_over and after < before * (1 - MAX_SHRINK):
            return (
                f"the notes would shrink from {before} to {after} tokens, more than they may: put "
                "back what is still true"
            )
        return None

    @property
    def _is_changed(self) -> bool:
        return any(self._bodies[section.title] != section.body for section in self.view.sections)

    def _applied(self, given: object) -> str | None:
        """Carry out an edit; what is wrong with it, or None."""
        if not isinstance(given, Mapping):
            return "the arguments are not a JSON object"
        named = {name: value for name, value in given.items() if value is not None}
        if not _ARGUMENTS.issuperset(named) or not {"section", "newText"}.issubset(named):
            return "the arguments are exactly section, newText and, if you want, oldText"
        if not all(isinstance(value, str) for value in named.values()):
            return "every argument is a text"
        section = self._find(named["section"])
        if section is None:
            titles = ", ".join(one.title for one in self.view.sections[:MAX_NAMES])
            return f"there is no such section; they are {titles}"
        limit = self.budgets.max_section_tokens
        if len(named["newText"]) > limit * MAX_EXCESS * 8:
            return f"that is far too long: a section has at most {limit} tokens"
        text = _plain(named["newText"])
        body = self._bodies[section.title]
        old = named.get("oldText")
        if old:
            times = body.count(_plain(old))
            if times != 1:
                return f"oldText occurs {times} times in {section.title}: quote what is there once"
            text = body.replace(_plain(old), text)
        elif old is not None and body.strip():
            return "oldText is empty: leave it out to replace the whole section"
        text = _trimmed(_without_own_heading(text, section))
        size = tokens.estimate(text)
        if size > limit * MAX_EXCESS:
            return f"{section.title} would have {size} tokens; its budget is {limit}: shorten it"
        if has_heading(text):
            return "the text holds a level-1 heading; those are fixed: use level 2, or none"
        self._bodies[section.title] = text
        self._edited.add(section.title)
        return None

    def _find(self, name: str) -> NoteSection | None:
        wanted = name.strip().removeprefix("# ").strip().casefold()
        return next((one for one in self.view.sections if one.title.casefold() == wanted), None)

    def _receipt(self, name: str) -> str:
        section = self._find(name)
        title = section.title if section is not None else name
        said = f"done: {title} has {tokens.estimate(self._bodies[title])} tokens."
        return f"{said} {over_budget(self._sections(), self.budgets)}".rstrip()

    def _sections(self) -> list[NoteSection]:
        out = []
        for section in self.view.sections:
            body = self._bodies[section.title]
            size = section.tokens if body == section.body else tokens.estimate(body)
            is_over = size > self.budgets.max_section_tokens
            out.append(NoteSection(section.title, section.description, body, size, is_over))
        return out


def _plain(text: str) -> str:
    """Without what hides or reorders, and with nothing that looks like injected memory."""
    return marker.neutralise(marker.visible(text))


def _trimmed(text: str) -> str:
    lines = text.split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    return "\n".join(lines)


def _without_own_heading(text: str, section: NoteSection) -> str:
    """Models like to repeat the heading and the line in italics of what they were shown."""
    lines = _trimmed(text).split("\n")
    if lines[0].strip() == f"# {section.title}":
        lines = _trimmed("\n".join(lines[1:])).split("\n")
    first = lines[0].strip()
    in_italics = len(first) > 2 and first[0] == first[-1] and first[0] in "_*"
    if in_italics and first[1:-1].strip() == section.description:
        del lines[0]
    return "\n".join(lines)


def has_heading(text: str) -> bool:
    """Whether a line outside code fences is, or may be, a level-1 heading."""
    fence = ""
    above = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
        elif _HEADING.match(line) or (above.strip() and _UNDERLINE.fullmatch(line)):
            return True
        above = "" if fence or found else line
    return False
