"""The notes file as a document (pure): parsed into slices that give the same bytes again.

A section is a level-1 heading, the line in italics that says what belongs there, and a body. Only
bodies change (X20, I21). What users added (text before the first heading, sections of their own)
stays where it is. `repaired` puts back what the template wants, and loses no text doing so.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from oncue.notes.blocks import LINE, Block, Heading, closed, contained, line_end, scan
from oncue.notes.template import DEFAULT, Template, TemplateSection
from oncue.notes_ports import NoteBudgets, NoteSection, NotesView
from oncue.text import tokens
from oncue.text.decoding import newline_of, normalise


@frozen
class Section:
    """A slice of the file: heading, line in italics, body."""

    title: str
    heading: str
    """As it stands in the file, with its line end."""
    line: str
    """The line in italics as it stands in the file, blank lines before it included; empty where
    it is missing."""
    body: str
    """The rest, up to the next level-1 heading."""
    is_own: bool = True
    """Whether the template has it; else a user added it."""

    @property
    def content(self) -> str:
        """The body without blank lines around it, line ends as `\\n`."""
        return content_of(self.body)

    @property
    def text(self) -> str:
        return self.heading + self.line + self.body

    @property
    def newline(self) -> str:
        """How lines end that are written anew into the body: `\n` behind a `\r` is no line."""
        return line_end(self.heading + self.line) or "\n"


@frozen
class Document:
    """A notes file."""

    template: Template
    preamble: str
    """What stands before the first heading."""
    sections: tuple[Section, ...]
    newline: str = "\n"
    """How lines end that are written anew."""

    @property
    def text(self) -> str:
        """The file: byte for byte what was parsed, where nothing was changed."""
        return self.preamble + "".join(section.text for section in self.sections)

    @property
    def own(self) -> tuple[Section, ...]:
        """The template's sections that are there, in the file's order."""
        return tuple(section for section in self.sections if section.is_own)

    @property
    def missing(self) -> tuple[str, ...]:
        """Titles of the template's sections that are not there."""
        there = {section.title for section in self.own}
        return tuple(s.title for s in self.template.sections if s.title not in there)

    @property
    def is_template(self) -> bool:
        """Nothing was ever written into a section."""
        return not self.preamble.strip() and not any(
            section.content or not section.is_own for section in self.sections
        )

    def content(self, title: str) -> str:
        """What is written in a section of the template; all of it, where it is there twice."""
        parts = [s.content for s in self.own if s.title == title]
        if len(parts) == 1:
            return parts[0]
        return "\n\n".join(closed(part) for part in parts if part)

    def contents(self) -> dict[str, str]:
        """Title → content of the template's sections, in its order."""
        return {section.title: self.content(section.title) for section in self.template.sections}

    def with_contents(self, contents: Mapping[str, str]) -> Document:
        """This document (repaired) with other text in some sections of the template; whatever
        the text holds, the sections stay what they are."""
        document = repaired(self)
        sections = []
        for section in document.sections:
            text = normalise(contents.get(section.title, "")) if section.is_own else ""
            if section.is_own and section.title in contents and text != section.content:
                section = evolve(section, body=_body(contained(text), section.newline))
            sections.append(section)
        return evolve(document, sections=_spaced(sections, self.newline))


def content_of(text: str) -> str:
    """Text without blank lines around it, line ends as `\\n`, no NUL."""
    lines = normalise(text).split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    while lines and not lines[-1].strip():
        del lines[-1]
    return "\n".join(lines)


def new(template: Template = DEFAULT) -> Document:
    """Notes into which nothing was written yet."""
    return parse(template.text, template)


def parse(text: str, template: Template = DEFAULT) -> Document:
    """Any text as notes; `.text` of the result is `text`. Never raises."""
    lines = LINE.findall(text)
    found = _headings(text, lines, template)
    sections = []
    for number, heading in enumerate(found):
        end = found[number + 1].start if number + 1 < len(found) else len(lines)
        own = template.find(heading.title)
        body_at = heading.end
        if own is not None:
            body_at = _behind_line(lines, heading.end, end, own)
        sections.append(
            Section(
                title=own.title if own is not None else heading.title,
                heading="".join(lines[heading.start : heading.end]),
                line="".join(lines[heading.end : body_at]),
                body="".join(lines[body_at:end]),
                is_own=own is not None,
            )
        )
    first = found[0].start if found else len(lines)
    return Document(template, "".join(lines[:first]), tuple(sections), newline_of(text))


def _behind_line(lines: list[str], start: int, end: int, own: TemplateSection) -> int:
    """The line behind the line in italics; `start`, where there is none. The default template's
    is one too: a user's template may have come later."""
    at = start
    while at < end and not lines[at].strip():
        at += 1
    default = DEFAULT.find(own.title)
    known = {own.line} | ({default.line} if default is not None else set())
    return at + 1 if at < end and lines[at].strip() in known else start


def _headings(text: str, lines: list[str], template: Template) -> list[Heading]:
    """Level-1 headings. A section of the template that is found nowhere but in a fence (or HTML)
    was swallowed by one that was never closed: there the fence ends."""
    found, blocks = scan(text)
    start = 0
    for _ in template.sections:
        titles = {heading.title.casefold() for heading in found}
        at = _swallowed(lines, start, blocks, template, titles)
        if at is None:
            break
        more, blocks = scan("".join(lines[at:]))
        found = [h for h in found if h.start < at] + [
            evolve(h, start=h.start + at, end=h.end + at) for h in more
        ]
        start = at
    return found


def _swallowed(
    lines: list[str], start: int, blocks: list[Block], template: Template, found: set[str]
) -> int | None:
    for block in blocks:
        for at in range(start + block.start + 1, min(start + block.end, len(lines) - 1)):
            line = lines[at].rstrip()
            if not line.startswith("# "):
                continue
            own = template.find(line[2:])
            if (
                own is not None
                and own.title.casefold() not in found
                and line == own.heading
                and lines[at + 1].rstrip() == own.line
            ):
                return at
    return None


def repaired(document: Document) -> Document:
    """All sections of the template, once, in order, with their own heading and line. Text of a
    section that is there twice is joined; what users added keeps its place behind the section
    that it stood behind. Where nothing is wrong, the same bytes."""
    newline = document.newline
    before: list[Section] = []
    behind: dict[str, list[Section]] = {s.title: [] for s in document.template.sections}
    place = before
    for section in document.sections:
        if section.is_own:
            place = behind[section.title]
        else:
            place.append(section)
    sections = list(before)
    for own in document.template.sections:
        sections.append(_section(document, own, newline))
        sections += behind[own.title]
    preamble = document.preamble
    if closed(normalise(preamble)) != normalise(preamble):
        preamble = contained(normalise(preamble)).replace("\n", newline)
    if preamble:
        preamble = _ended(preamble, newline, blank=bool(preamble.strip()))
    return evolve(document, preamble=preamble, sections=_spaced(sections, newline))


def _section(document: Document, own: TemplateSection, newline: str) -> Section:
    there = [section for section in document.own if section.title == own.title]
    heading, line = own.heading + newline, own.line + newline
    if len(there) == 1:
        (section,) = there
        if section.heading == own.heading + line_end(section.heading) and (
            section.line == own.line + line_end(section.line)
        ):
            return section
        if section.line:
            return evolve(section, heading=heading, line=line)
    content = contained(document.content(own.title))
    return Section(own.title, heading, line, _body(content, newline))


def _spaced(sections: list[Section], newline: str) -> tuple[Section, ...]:
    """Each section but the last ends so that the next heading is one."""
    spaced = []
    for number, section in enumerate(sections):
        is_last = number == len(sections) - 1
        if section.is_own:
            section = evolve(
                section,
                heading=_ended(section.heading, newline),
                line=_ended(section.line, newline),
            )
            if section.content and section.body[:1] not in "\r\n":
                section = evolve(section, body=section.newline + section.body)
        else:
            section = evolve(section, heading=_ended(section.heading, newline))
        if not is_last:
            section = evolve(section, body=_closed_body(section))
        spaced.append(section)
    return tuple(spaced)


def _closed_body(section: Section) -> str:
    newline = section.newline
    whole = section.line + section.body
    if not section.content:
        return _ended(section.body, newline, blank=not section.body.strip("\r\n"))
    content = closed(normalise(whole))
    body = section.body
    if content != normalise(whole):
        body = _body(contained(section.content), newline)
    return _ended(body, newline, blank=True)


def _body(content: str, newline: str) -> str:
    if not content.strip():
        return newline
    return newline + content.replace("\n", newline) + newline


def _ended(text: str, newline: str, *, blank: bool = False) -> str:
    """`text` with a line end behind its last line, and a blank line where asked for."""
    lines = LINE.findall(text)
    if lines and not line_end(lines[-1]):
        lines[-1] += newline
    if blank and (not lines or lines[-1].strip()):
        lines.append(line_end(lines[-1]) if lines else newline)
    return "".join(lines)


def view(document: Document, revision: str | None, budgets: NoteBudgets) -> NotesView:
    """What others see of a (repaired) document: its sections with their sizes (X21)."""
    sections = []
    for own in document.template.sections:
        content = document.content(own.title)
        size = tokens.estimate(content)
        sections.append(
            NoteSection(
                own.title, own.description, content, size, size > budgets.max_section_tokens
            )
        )
    return NotesView(document.text, tuple(sections), revision, document.is_template)
