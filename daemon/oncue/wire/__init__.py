"""The wire: bytes in and out of file descriptors, JSON-RPC in the manner of LSP (wire.md)."""
