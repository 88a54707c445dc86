"""A peer: pygls as it is, on asyncio, doing the same work."""

from typing import Any

from pygls.lsp.server import LanguageServer

server = LanguageServer("bench", "1")


@server.feature("test/echo")
def echo(params: Any) -> None:
    return None


if __name__ == "__main__":
    server.start_io()
