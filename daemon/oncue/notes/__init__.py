"""Session notes: the document, edits, budgets, merges (pure), and the file they are kept in."""
