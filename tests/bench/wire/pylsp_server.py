"""A peer: python-lsp-jsonrpc, the library below python-lsp-server, doing the same work."""

import sys

from pylsp_jsonrpc.dispatchers import MethodDispatcher
from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter


class Server(MethodDispatcher):
    def m_initialize(self, **_: object) -> dict[str, object]:
        return {"capabilities": {}}

    def m_initialized(self, **_: object) -> None:
        pass

    def m_test__echo(self, text: str = "") -> None:
        return None


if __name__ == "__main__":
    reader = JsonRpcStreamReader(sys.stdin.buffer)
    writer = JsonRpcStreamWriter(sys.stdout.buffer)
    endpoint = Endpoint(Server(), writer.write)
    reader.listen(endpoint.consume)
