"""One daemon a module for the tests of recall, sessions and errors; one session a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e_talk import OPTIONS, RECALL_DAEMON, Conversation, Talk


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    """A daemon with the memories of `e2e_talk.MEMORIES`, and a client that lends its model."""
    with Talk(RECALL_DAEMON) as talk:
        talk.initialize(OPTIONS)
        talk.remember(talk.home / "workspace")
        yield talk
        assert talk.shutdown() == 0


@pytest.fixture
def workspace(talk: Talk) -> Path:
    """The folder that the memories belong to."""
    return talk.home / "workspace"


@pytest.fixture
def chat(talk: Talk, workspace: Path) -> Iterator[Conversation]:
    """A session with default settings; in the end each of its recalls must have ended once."""
    with talk.conversation(workspace) as chat:
        yield chat
