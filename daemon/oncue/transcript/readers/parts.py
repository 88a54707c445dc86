"""Parts as the Gemini family writes them (Gemini CLI and Qwen Code; pure): T7."""

from __future__ import annotations

from attrs import frozen

from . import fields
from .fields import Json


@frozen
class Call:
    """A `functionCall` part."""

    id: str | None
    """None: older versions write none; position and name join it to its result."""
    name: str
    arguments: object


def text_of(content: object) -> str:
    """Text of a string, a part or a list of parts; thoughts are dropped, binary parts named."""
    return fields.joined(_text(part) for part in fields.items(content))


def _text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("thought"):
        return ""
    return fields.string(part.get("text")) or fields.placeholder(part)


def calls_of(content: object) -> list[Call]:
    """The calls among the parts."""
    calls = []
    for part in fields.objects(content):
        given = part.get("functionCall")
        if isinstance(given, dict):
            calls.append(
                Call(
                    fields.ident(given.get("id")),
                    fields.string(given.get("name")),
                    fields.shallow(given.get("args")),
                )
            )
    return calls


def responses_of(content: object) -> list[Json]:
    """The `functionResponse` members among the parts."""
    found = []
    for part in fields.objects(content):
        given = part.get("functionResponse")
        if isinstance(given, dict):
            found.append(given)
    return found


def response_text(response: Json) -> tuple[str, bool]:
    """Text of a `functionResponse`, and whether it is an error."""
    given = response.get("response")
    members = fields.mapping(given)
    if members.get("error"):
        return fields.flat(members["error"]), True
    shown = members.get("output", given)
    rest = [text_of(response.get("parts"))]
    return fields.joined([fields.flat(shown), *rest]), False


def is_unknown(part: object) -> bool:
    """Whether the part is of a kind that we do not know."""
    if isinstance(part, str):
        return False
    known = ("text", "thought", "functionCall", "functionResponse", "inlineData", "fileData")
    return not isinstance(part, dict) or not any(member in part for member in known)
