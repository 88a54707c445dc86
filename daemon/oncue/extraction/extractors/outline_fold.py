"""The outline: a fold over messages into section edits (pure; extraction.md §4).

Its only state between runs is what the notes say. A message is folded once: the log names the last
one (`through`) and every turn, so a range that was folded already, or in part, changes nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from attrs import evolve

from oncue.extraction.extractors.outline_entries import (
    OPEN,
    Command,
    Entries,
    Facts,
    File,
    Lesson,
    Problem,
    Said,
    Turn,
    code,
)
from oncue.extraction.extractors.outline_facts import facts, relative, working_folder
from oncue.extraction.extractors.outline_text import (
    clip,
    cut,
    gist,
    lessons,
    question,
    safe,
    squashed,
)
from oncue.extraction.extractors.outline_tools import (
    Deed,
    Ending,
    Touch,
    deed,
    defined,
    ending,
    paths_of,
    repeats,
)
from oncue.notes_ports import Extracted, NoteBudgets, NotesView, SectionEdit
from oncue_protocol import Message, ToolResult

# Tokens of the parts of an entry: enough to know what is meant; a turn comes to 150 or so in all.
TITLE = 22
REQUEST = 90
ANSWER = 110
THEN = 45
LOGGED = 18
NOW_REQUEST = 120
NOW_ANSWER = 160
MAX_OPEN = 30
"""Failures that a later success may mend; older ones stay open."""
MAX_OPEN_SHOWN = 5
RECENT_TURNS = 3
"""A failure of this age that nobody came back to is no longer where it stands."""
MAX_NAMES = 12
MAX_CHANGES = 3
MAX_CHANGED = 8
"""Files that a turn of the log names."""
FITS = 0.97
"""Of a section's budget: the outline shortens its own entries before anybody leaves some out."""

_FOLDER = "Working folder"
_THROUGH = re.compile(r"\n?<!-- outline through ([0-9a-z]{10}) -->\s{0,9}\Z")
_REQUEST, _ANSWER, _QUESTION = "- Last request", "- Last answer", "- Question to the user"
_OPEN, _RUNNING = "- Still open: ", "- Running: "
_NOW = (_REQUEST, _ANSWER, _QUESTION, _OPEN, _RUNNING)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")


def short(text: str, length: int) -> str:
    """A stable short name for an id."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:8], "big")
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, 36)
        digits += "0123456789abcdefghijklmnopqrstuvwxyz"[digit]
    return digits


class Fold:
    """One run: `feed` each message of `unseen`, then ask for `extracted`."""

    def __init__(self, notes: NotesView, budgets: NoteBudgets) -> None:
        self._bodies = {section.title: section.body for section in notes.sections}
        self._budgets = budgets
        log = self._bodies.get("Log", "")
        through = _THROUGH.search(log)
        self._through = through[1] if through else None
        self._log = Entries(_THROUGH.sub("", log), Turn.parse)
        self._task = Entries(self._body("Task"), Said.parse)
        self._results = Entries(self._body("Results"), Said.parse)
        self._files = Entries(self._body("Files"), File.parse)
        self._commands = Entries(self._body("Commands"), Command.parse)
        self._problems = Entries(self._body("Problems"), Problem.parse)
        self._facts = Entries(self._body("System"), Facts.parse)
        self._lessons = Entries(self._body("Lessons"), Lesson.parse)
        self._title = self._body("Title")
        now = self._body("Now").split("\n")
        self._others_now = [line for line in now if line and not line.startswith(_NOW)]
        self._now = {
            start: next((line for line in now if line.startswith(start)), "")
            for start in (_REQUEST, _ANSWER, _QUESTION)
        }
        folder = self._facts.find(_FOLDER)
        self._folder = folder.values[0] if folder is not None else None
        self._turn = self._log.last
        self._pending: dict[str, Deed] = {}
        self._unexplained: list[str] = []
        """Problems of which the agent has not spoken yet."""
        self._last_id: str | None = None
        self._paths: dict[str, str] = {}

    def _body(self, title: str) -> str:
        return self._bodies.get(title, "")

    def unseen(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages that were not folded in an earlier run."""
        for index in range(len(messages) - 1, -1, -1):
            if short(messages[index].id, 10) == self._through:
                messages = messages[index + 1 :]
                break
        else:
            opening = (n for n, message in enumerate(messages) if _opens_turn(message))
            first = next(opening, None)
            if first is not None and self._is_logged(messages[first]):
                # All of it was folded up to the first turn that the log does not know.
                new = (n for n in opening if not self._is_logged(messages[n]))
                messages = messages[next(new, len(messages)) :]
        if self._folder is None:
            self._find_folder(messages)
        return messages

    def _is_logged(self, message: Message) -> bool:
        return self._log.find(short(message.id, 5)) is not None

    def _find_folder(self, messages: Iterable[Message]) -> None:
        paths = (path for m in messages for c in m.tool_calls for path in paths_of(c))
        self._folder = working_folder(paths)
        if self._folder is not None:
            self._facts.put(Facts(_FOLDER, [self._folder]))

    # --- messages --------------------------------------------------------------------------

    def feed(self, message: Message) -> None:
        """Fold one message in."""
        self._last_id = message.id
        for result in message.tool_results:
            self._take_result(result)
        if _opens_turn(message):
            self._take_request(message)
        elif message.role == "assistant":
            self._take_answer(message)

    def _take_request(self, message: Message) -> None:
        text = safe(message.text)
        line = squashed(text)
        key = short(message.id, 5)
        time = _TIME.match(message.time or "")
        self._turn = Turn(key, f"{time[1]} {time[2]}" if time else "", cut(line, LOGGED))
        self._log.put(self._turn)
        self._task.put(Said(key, cut(line, REQUEST)))
        if not self._title:
            self._title = gist(text, TITLE)
        for lesson in lessons(text):
            self._lessons.put(Lesson(lesson))
        self._take_facts(text, is_command=False)
        at = f" ({self._turn.time})" if self._turn.time else ""
        self._now = {
            _REQUEST: f"{_REQUEST}{at}: {cut(line, NOW_REQUEST)}",
            _ANSWER: "",
            _QUESTION: "",
        }

    def _take_answer(self, message: Message) -> None:
        text = safe(message.text).strip()
        if text:
            for key in self._unexplained:
                problem = self._problems.find(key)
                if problem is not None and not problem.then:
                    then = gist(text, THEN)
                    self._problems.put(evolve(problem, then=then), moves=False)
            self._unexplained.clear()
            if self._turn is not None:
                self._results.put(Said(self._turn.key, gist(text, ANSWER)))
            self._now[_ANSWER] = f"{_ANSWER}: {gist(text, NOW_ANSWER)}"
            asked = None if message.tool_calls else question(safe(message.text[-600:]))
            self._now[_QUESTION] = f"{_QUESTION}: {cut(asked, 60)}" if asked else ""
            self._take_facts(text, is_command=False)
        for call in message.tool_calls:
            if call.id not in self._pending:
                self._take_call(call.id, deed(call))

    def _take_call(self, call_id: str, does: Deed) -> None:
        self._pending[call_id] = does
        if does.command is not None:
            self._take_facts(does.command, is_command=True)
        if self._turn is not None:
            changed = list(self._turn.changed)
            for touch in does.touches:
                path = self._shown(touch.path)
                if touch.kind != "read" and path not in changed and len(changed) < MAX_CHANGED:
                    changed.append(path)
            self._log_turn(evolve(self._turn, calls=self._turn.calls + 1, changed=changed))

    def _log_turn(self, turn: Turn) -> None:
        self._turn = turn
        self._log.put(turn, moves=False)

    def _take_result(self, result: ToolResult) -> None:
        does = self._pending.pop(result.call_id, None)
        if does is None:
            return
        end = ending(does, result)
        if does.command is not None:
            self._take_command(does, end)
        if end.outcome == "refused":
            self._lessons.put(Lesson(f"Refused by the user: {code(does.subject)}"))
        elif end.outcome == "failed":
            self._take_failure(does, end)
        else:
            self._take_success(does, result)

    def _take_command(self, does: Deed, end: Ending) -> None:
        before = self._commands.find(does.subject) or Command(does.subject)
        self._commands.put(
            Command(
                does.subject,
                does.about.replace("(", "[").replace(")", "]") or before.about,
                before.runs + 1,
                before.failed + (end.outcome == "failed"),
                end.outcome,
                end.text,
            )
        )

    def _take_failure(self, does: Deed, end: Ending) -> None:
        before = self._problems.find(does.subject)
        times = before.times + 1 if before is not None else 1
        self._problems.put(
            Problem(does.subject, end.text, times, turn=self._turn.key if self._turn else "")
        )
        if does.subject not in self._unexplained:
            self._unexplained.append(does.subject)
        if self._turn is not None:
            self._log_turn(evolve(self._turn, failed=self._turn.failed + 1))

    def _take_success(self, does: Deed, result: ToolResult) -> None:
        open_ = [problem for problem in self._problems if problem.end == OPEN][-MAX_OPEN:]
        for touch in does.touches:
            self._touch(touch, result)
            if touch.kind != "read":
                path = self._shown(touch.path)
                for problem in open_:
                    if path not in problem.edited and len(problem.edited) < MAX_CHANGED:
                        problem.edited.append(path)
        for problem in open_:
            again = (
                repeats(problem.key, does.command)
                if does.command is not None
                else problem.key == does.subject
            )
            if again:
                edited = f"changed {', '.join(problem.edited)}; " if problem.edited else ""
                end = f"mended: {edited}{code(cut(does.subject, 40))} worked"
                self._problems.put(evolve(problem, end=end), moves=False)

    def _touch(self, touch: Touch, result: ToolResult) -> None:
        path = self._shown(touch.path)
        before = self._files.find(path) or self._files.find(touch.path) or File(path)
        deeds = {**before.deeds, touch.kind: before.deeds.get(touch.kind, 0) + 1}
        names = touch.names if touch.kind != "read" else defined(result.text[:8_000])
        changes = [change for change in before.changes if change != touch.change]
        if touch.change:
            changes.append(touch.change.replace("⏎", " "))
        self._files.put(
            File(
                before.key,
                deeds,
                list(dict.fromkeys((*before.names, *names)))[:MAX_NAMES],
                changes[-MAX_CHANGES:],
            )
        )

    def _shown(self, path: str) -> str:
        shown = self._paths.get(path)
        if shown is None:
            shown = self._paths[path] = clip(relative(path, self._folder), 60)
        return shown

    def _take_facts(self, text: str, *, is_command: bool) -> None:
        for kind, name in facts(text[:4_000], is_command=is_command):
            before = self._facts.find(kind)
            values = before.values if before is not None else []
            if name not in values:
                self._facts.put(Facts(kind, [*values, name]), moves=False)

    # --- edits -----------------------------------------------------------------------------

    def extracted(self) -> Extracted:
        """What the messages come to; the explicit no-op where they bring nothing new."""
        if self._last_id is None:
            return Extracted((), nothing_to_add=True)
        room = int(self._budgets.max_section_tokens * FITS * 1_000)
        bodies = {
            "Title": self._title,
            "Task": self._task.body(room),
            "Files": self._files.body(room),
            "Commands": self._commands.body(room),
            "Problems": self._problems.body(room),
            "System": self._facts.body(room),
            "Lessons": self._lessons.body(room),
            "Results": self._results.body(room),
        }
        log = self._log.body(room)
        edits = [
            SectionEdit(title, body)
            for title, body in bodies.items()
            if title in self._bodies and body != self._bodies[title]
        ]
        now = self._now_body()
        is_new = edits or log != _THROUGH.sub("", self._body("Log")) or now != self._body("Now")
        if not is_new:
            return Extracted((), nothing_to_add=True)
        edits.insert(0, SectionEdit("Now", now or "- Nothing was asked for yet."))
        if "Log" in self._bodies:
            through = f"<!-- outline through {short(self._last_id, 10)} -->"
            edits.append(SectionEdit("Log", f"{log}\n{through}" if log else through))
        return Extracted(tuple(edits))

    def _now_body(self) -> str:
        turns = [turn.key for turn in self._log][-RECENT_TURNS:]
        open_ = [p for p in self._problems if p.end == OPEN and p.turn in turns][-MAX_OPEN_SHOWN:]
        lines = [
            *self._others_now,
            self._now[_REQUEST],
            self._now[_ANSWER],
            self._now[_QUESTION],
            *(
                f"{_OPEN}{code(cut(p.key, 40))}: {cut(p.error, 40)}"
                for p in open_[-MAX_OPEN_SHOWN:]
            ),
            *(f"{_RUNNING}{code(cut(d.subject, 40))}" for d in list(self._pending.values())[-5:]),
        ]
        return "\n".join(line for line in lines if line)


def _opens_turn(message: Message) -> bool:
    return message.role == "user" and bool(message.text.strip())
