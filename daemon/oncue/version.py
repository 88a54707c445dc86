"""The version, as in pyproject.toml (a test compares them): reading package metadata at start
would cost 15 ms and fail in an unpacked tree."""

VERSION = "0.1.0"
