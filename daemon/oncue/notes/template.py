"""The template of the notes: ten sections of our own, or the user's (pure; X20, X24)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import frozen

from oncue.notes.blocks import LINE, headings, line_end
from oncue.text.decoding import normalise

MAX_TEMPLATE_SECTIONS = 40
"""A template of more is a document that was saved under the wrong name."""
NOW = "Now"
"""The section that every run refreshes (X20); a template without it is none."""


class TemplateError(ValueError):
    """A template that cannot be used. The text says why."""


@frozen
class TemplateSection:
    """A section as the template has it; none of it ever changes."""

    title: str
    line: str
    """The line in italics as it stands in the file, without its end."""

    @property
    def heading(self) -> str:
        """The heading as it stands in the file, without its end."""
        return f"# {self.title}"

    @property
    def description(self) -> str:
        """What belongs into the section: the line without its marks."""
        return self.line.strip()[1:-1].strip()


@frozen
class Template:
    """The sections that every notes file has, once, in this order."""

    sections: tuple[TemplateSection, ...]

    def find(self, title: str) -> TemplateSection | None:
        """The section of this title, whatever its case; None: there is none."""
        wanted = title.strip().casefold()
        return next((s for s in self.sections if s.title.casefold() == wanted), None)

    @property
    def text(self) -> str:
        """A notes file into which nothing was written yet."""
        return "\n".join(f"{section.heading}\n{section.line}\n" for section in self.sections)


DEFAULT = Template(
    tuple(
        TemplateSection(title, f"_{description}_")
        for title, description in (
            ("Title", "What this session is about, in one line of five to ten words."),
            ("Now", "Where it stands: last request, last answer, what is open, what comes next."),
            ("Task", "What the user asked for, in the user's words, with what was decided on it."),
            ("Files", "Files that matter, what is in them and what was changed there."),
            ("Commands", "Commands that were run, how often, whether they worked, what they said."),
            ("Problems", "What failed, with the error, and how it was mended or that it was not."),
            ("System", "Parts of the system, services, hosts, tickets and links one has to know."),
            ("Lessons", "What the user corrected or wants done this way; what not to try again."),
            ("Results", "What came out: answers, figures and tables that somebody asked for."),
            ("Log", "What happened, a line a turn, the oldest first."),
        )
    )
)

_ITALIC = re.compile(r"_[^\s_](?:[^\n]*[^\s_])?_|\*[^\s*](?:[^\n]*[^\s*])?\*")


def parse_template(text: str) -> Template:
    """A user's template. Raises `TemplateError`: it holds level-1 headings, each with one line in
    italics below it, no title twice, `Now` among them, and nothing else."""
    text = normalise(text.removeprefix("\ufeff"))
    lines = LINE.findall(text)
    found = headings(text)
    if not found:
        raise TemplateError("it has no level-1 heading")
    if len(found) > MAX_TEMPLATE_SECTIONS:
        raise TemplateError(f"it has more than {MAX_TEMPLATE_SECTIONS} sections")
    if "".join(lines[: found[0].start]).strip():
        raise TemplateError("there is text before the first heading")
    sections: list[TemplateSection] = []
    for number, heading in enumerate(found):
        end = found[number + 1].start if number + 1 < len(found) else len(lines)
        title = heading.title
        if lines[heading.start].rstrip("\n") != f"# {title}" or not (title and title.isprintable()):
            raise TemplateError(f"the heading of section {number + 1} is not `# Title`")
        below = [line.strip() for line in lines[heading.end : end] if line.strip()]
        if len(below) != 1 or not _ITALIC.fullmatch(below[0]):
            raise TemplateError(
                f"section {title!r} does not consist of its heading and one line in italics"
            )
        sections.append(TemplateSection(title, below[0]))
    template = Template(tuple(sections))
    if len({section.title.casefold() for section in sections}) < len(sections):
        raise TemplateError("a title occurs twice")
    if template.find(NOW) is None:
        raise TemplateError(f"section {NOW!r} is missing, which every run refreshes")
    if [h.title for h in headings(template.text)] != [s.title for s in sections]:
        raise TemplateError("its headings do not survive being written")
    return template


_NAME = re.compile(r"\{\{([A-Za-z][A-Za-z0-9]{0,63})\}\}")


def substitute(text: str, values: Mapping[str, str]) -> str:
    """`text` with `{{name}}` replaced, in one pass: what a value holds is not looked at again,
    and an unknown name stays as it is (X24)."""
    return _NAME.sub(lambda match: values.get(match[1], match[0]), text)


__all__ = [
    "DEFAULT",
    "NOW",
    "Template",
    "TemplateError",
    "TemplateSection",
    "line_end",
    "parse_template",
    "substitute",
]
