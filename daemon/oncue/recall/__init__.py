"""Recall: what is remembered reaches the model without making the user wait (recall.md)."""
