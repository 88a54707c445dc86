"""Text, pure: analysis for search, token estimates, the marker of injected text, secret rules.

Every room may use it; it uses none."""
