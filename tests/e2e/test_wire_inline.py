"""Inline handlers are dictionary work (wire.md §1): no file, socket, sleep or process while the
reader is in their hands. How fast they are is the benchmark's business."""

from __future__ import annotations

from typing import Any

from e2e_driver import TEST_DAEMON, Daemon, notification

GUARD = {"ONCUE_TEST_GUARD": "1"}


def violations(daemon: Daemon) -> list[str]:
    found: list[str] = daemon.result("test/violations")["violations"]
    return found


def test_wire1_the_guard_sees_what_blocks() -> None:
    with Daemon(TEST_DAEMON, env=GUARD) as daemon:
        daemon.initialize()
        assert violations(daemon) == []
        daemon.result("test/violations", {"provoke": True})
        assert violations(daemon)[0].startswith("test/violations: os.listdir")


def message(number: int, role: str, text: str) -> dict[str, Any]:
    return {"id": f"m{number}", "role": role, "text": text}


def test_wire1_no_inline_handler_blocks() -> None:
    """Everything that is served, in the order of a working session."""
    with Daemon(TEST_DAEMON, env=GUARD) as daemon:
        served = daemon.initialize()["capabilities"]["experimental"]["oncue"]["methods"]
        workspace = daemon.home / "work"
        workspace.mkdir()
        session = {"sessionId": "s1"}
        opened = {**session, "workspace": str(workspace)}
        path = ""
        memory = {
            **session,
            "scope": "user",
            "type": "feedback",
            "title": "Deploys",
            "description": "how deploys are done here",
            "body": "Deploys go through the staging cluster first.",
        }
        requests: list[tuple[str, Any]] = [
            ("session/open", opened),
            ("session/list", {}),
            ("memory/write", memory),
            ("memory/list", session),
            ("memory/search", {**session, "query": "deploy"}),
            ("recall/start", {**session, "query": "how do deploys work?", "turnId": "t1"}),
            ("recall/start", {**session, "query": "how do deploys go?", "waitMs": 500}),
            ("recall/poll", {**session, "point": "userQuery"}),
            ("recall/poll", {**session, "point": "toolResult", "waitMs": 50}),
            ("recall/peek", session),
            ("recall/cancel", session),
            ("session/status", session),
            ("session/timeline", session),
            ("daemon/status", {}),
            ("memory/forget", {**session, "query": "deploy", "dryRun": True}),
        ]
        for method, params in requests:
            if method in served:
                answer = daemon.request(method, params)
                if method == "memory/write" and "result" in answer:
                    path = answer["result"]["path"]
        if path:
            daemon.request("memory/read", {**session, "path": path})
        for told in (
            notification(
                "transcript/didAppend",
                {
                    **session,
                    "messages": [message(1, "user", "hello"), message(2, "assistant", "hi")],
                },
            ),
            notification("transcript/willCompact", session),
            notification("transcript/didCompact", {**session, "contextTokens": 100}),
            notification("turn/didEnd", {**session, "reason": "completed"}),
            notification("transcript/didReset", {**session, "reason": "cleared"}),
            notification("recall/cancel", session),
            notification("workspace/didChangeConfiguration", {"settings": {"oncue": {}}}),
        ):
            daemon.send(told)
        daemon.request("session/close", session)
        assert violations(daemon) == []
        assert daemon.shutdown() == 0
