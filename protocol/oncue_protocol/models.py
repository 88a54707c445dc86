"""The model that an editor lends to the daemon (protocol.md, Models; pure)."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from .base import Count, JsonObject, Milliseconds, Wire
from .transcript import MessageRole, ToolCall, ToolResult, Usage

GeneratePurpose = Literal["select", "extract"]


@frozen(kw_only=True, eq=False, repr=False)
class ModelMessage(Wire):
    """One message of a request to a model."""

    role: MessageRole
    """Who speaks."""
    text: str = ""
    """What is said."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tools that the model asked for, in an earlier answer of it."""
    tool_results: tuple[ToolResult, ...] = ()
    """What they answered."""


@frozen(kw_only=True, eq=False, repr=False)
class ModelTool(Wire):
    """A tool that the model may call."""

    name: str
    """Its name."""
    description: str
    """What it does."""
    input_schema: JsonObject
    """JSON Schema of its arguments."""


@frozen(kw_only=True, eq=False, repr=False)
class ModelGenerateParams(Wire):
    """Asks the editor's model. Sent to the session's driver only, where it advertised
    `modelProvider`; cancelled with `$/cancelRequest` like any request."""

    purpose: GeneratePurpose
    """`select`: choose among the manifest's entries, answer `{"ids": ["m2"]}`; `extract`: edit
    the notes with the one tool, or answer `NOTHING_TO_ADD`."""
    messages: tuple[ModelMessage, ...]
    """The conversation with the model."""
    tools: tuple[ModelTool, ...] = ()
    """Tools that it may call."""
    response_schema: JsonObject | None = None
    """JSON Schema of the text of the answer."""
    max_output_tokens: Count
    """At most so many tokens."""
    deadline_ms: Milliseconds
    """An answer after this time is not used."""


@frozen(kw_only=True, eq=False, repr=False)
class ModelGenerateResult(Wire):
    """What the model answered."""

    text: str | None = None
    """Its text."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tools that it asks for."""
    usage: Usage | None = None
    """Token counts of the request."""
