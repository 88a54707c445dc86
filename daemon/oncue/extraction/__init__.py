"""When session notes are written, by exactly one run at a time, and how nothing waits for it."""
