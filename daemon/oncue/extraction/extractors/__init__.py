"""Extractors: what makes section edits out of a snapshot. `outline` needs no model."""
