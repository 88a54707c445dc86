"""Memory files, their index, and what may be done with them (memory.md)."""
