"""What can go wrong with a replay, in words for the user."""

from __future__ import annotations


class ReplayError(Exception):
    """Says what is wrong, where, and what to do; the command ends with exit code 2."""
