"""Recorded sessions: their events, their readers, following a growing file."""
