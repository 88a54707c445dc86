"""The commands that people type; `oncue --help` shows them."""

from __future__ import annotations

import click

from oncue import serve
from oncue.replay.commands import demo_command, replay_command
from oncue.version import VERSION


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="oncue")
def oncue() -> None:
    """One memory for coding agents and editor extensions.

    \b
    See it at work:          oncue demo
    Play your own session:   oncue replay ~/.claude/projects/…/SESSION.jsonl
    What an extension runs:  oncue serve --stdio
    """


@oncue.command("serve", add_help_option=True, options_metavar="--stdio [--clientProcessId PID]")
@click.option("--stdio", is_flag=True, help="Speak JSON-RPC on stdin and stdout.")
@click.option("--clientProcessId", type=int, metavar="PID", help="End when this process dies.")
def serve_command(stdio: bool, clientprocessid: int | None) -> None:
    """The daemon, as an editor extension starts it."""
    words = ["--stdio"] if stdio else []
    if clientprocessid is not None:
        words += ["--clientProcessId", str(clientprocessid)]
    raise SystemExit(serve.main(words))


oncue.add_command(replay_command)
oncue.add_command(demo_command)
