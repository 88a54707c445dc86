"""The user's own template and prompt, from the configuration folder (blocking; X24).

`template.md` and `prompt.md`. One that cannot be used is left alone, with a warning that says why.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from oncue.notes.template import DEFAULT, Template, TemplateError, parse_template

MAX_BYTES = 64 * 1024
"""A template or prompt of more is another file by mistake."""


def load_template(config: Path) -> tuple[Template, str | None]:
    """The user's template, or the default one; and a warning."""
    path = config / "template.md"
    text, warning = _read(path)
    if text is None:
        return DEFAULT, warning
    try:
        return parse_template(text), None
    except TemplateError as error:
        return DEFAULT, f"{path} is not used: {error}: the default template is"


def load_prompt(config: Path) -> tuple[str | None, str | None]:
    """The user's prompt for a model (for `template.substitute`), None where the default one is
    to be used; and a warning."""
    path = config / "prompt.md"
    text, warning = _read(path)
    if text is not None and not text.strip():
        return None, f"{path} is not used: it is empty"
    return text, warning


def _read(path: Path) -> tuple[str | None, str | None]:
    """Text of a file of the user's own folder, where links are the user's business."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, f"{path} is not used: {error.strerror}"
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None, f"{path} is not used: it is no regular file"
        if found.st_size > MAX_BYTES:
            return None, f"{path} is not used: it has more than {MAX_BYTES} bytes"
        data = os.read(fd, MAX_BYTES)
    except OSError as error:
        return None, f"{path} is not used: {error.strerror}"
    finally:
        os.close(fd)
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n"), None
    except UnicodeDecodeError:
        return None, f"{path} is not used: it is not UTF-8"
