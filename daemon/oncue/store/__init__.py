"""The database behind the index: derived from the files, never truth (memory.md M6)."""
