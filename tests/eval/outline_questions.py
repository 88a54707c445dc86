"""Questions about a session that a colleague who takes over would ask, and the facts that answer
them: every group must be found, by any of its spellings.

Written from the demo's story, a few a turn, not from what the notes happen to say.
"""

from __future__ import annotations

from attrs import frozen


@frozen
class Question:
    """One question; `facts`: groups of spellings."""

    kind: str
    """`asked`, `files`, `commands`, `failed`, `decided`, `result`, `state`."""
    text: str
    facts: tuple[tuple[str, ...], ...]


def _q(kind: str, text: str, *facts: str) -> Question:
    return Question(kind, text, tuple(tuple(fact.split("|")) for fact in facts))


DEMO = (
    _q("asked", "What was the first thing asked for?", "deploy to staging hangs", "health check"),
    _q("asked", "Which report was wrong, for whom?", "March report", "Japanese customers"),
    _q("asked", "What was wanted of the test for yen?", "ohne Mock"),
    _q("asked", "What was wrong with the invoices' PDF?", "豆腐"),
    _q("asked", "Which test was red in CI?", "test_export_roundtrip", "CI"),
    _q("asked", "Which invoice was charged twice?", "2026-0317", "charged twice"),
    _q("asked", "Which event was to be checked as well?", "evt_20931"),
    _q("asked", "What was asked about Austria?", "Österreich", "Umsatzsteuer"),
    _q("asked", "Which page was slow, what was wanted?", "dunning page", "index"),
    _q("asked", "What was asked about the customers' list?", "客户列表", "分页"),
    _q("asked", "What was to be rotated?", "SMTP password"),
    _q("asked", "Who wants --json, with which tool?", "accountant", "jq"),
    _q("asked", "How many customers get the new dunning text?", "10 percent"),
    _q("files", "Where is MINOR_DIGITS?", "src/ledgerline/money.py", "MINOR_DIGITS"),
    _q("files", "Which file holds the yen test?", "tests/test_report_yen.py"),
    _q("files", "Where do invoices' fonts stand?", "invoice.css"),
    _q("files", "Which function books a webhook?", "webhooks.py", "book"),
    _q("files", "Which migration makes event ids unique?", "0043_webhook_event_unique"),
    _q("files", "Which migration adds the index?", "0044_invoice_due_index"),
    _q("files", "Which file writes DATEV, with which functions?", "export.py", "datev"),
    _q("files", "Where are the flags?", "flags.toml", "new_dunning"),
    _q("files", "Where does the race test stand?", "test_webhooks_race.py"),
    _q("files", "Which API file was changed for paging?", "api/customers.py"),
    _q("files", "Where are the deploy steps?", "docs/deploys.md"),
    _q("files", "Which file has the command line?", "cli.py", "overdue"),
    _q("files", "What was changed in Dockerfile?", "Dockerfile", "fonts-noto-cjk"),
    _q("commands", "How is staging deployed and checked?", "make deploy-staging", "make smoke"),
    _q("commands", "How is the tunnel brought up?", "wg-quick up wg-staging"),
    _q("commands", "How are migrations run?", "make migrate ENV="),
    _q("commands", "How is load made?", "make load ROUTE="),
    _q("commands", "How is the image built?", "docker build --target runtime"),
    _q("commands", "How is SQL run in production?", "ledger-sql", "ssh production"),
    _q("commands", "How are the docs built?", "mkdocs build --strict"),
    _q("commands", "How was the pull request opened?", "gh pr create"),
    _q("commands", "How is SMTP checked?", "make smtp-check"),
    _q("commands", "How are types checked?", "mypy src", "ruff check"),
    _q("commands", "How is staging reloaded after a flag?", "systemctl reload ledgerline"),
    _q("failed", "How did the health check fail?", "timed out", "10.83.0.12"),
    _q("failed", "Why did the health check fail?", "WireGuard", "wg-staging"),
    _q("failed", "Which package could not be found?", "Unable to locate package", "noto-cjk-jp"),
    _q(
        "failed", "What is the package called really?", "called `fonts-noto-cjk`|noto-cjk-jp \\ => "
    ),
    _q("failed", "Which yen test failed first, why?", "test_str_of_yen", "prints two decimals"),
    _q("failed", "Why did the export test fail?", "local zone|Berlin time|time zone", "UTC"),
    _q("failed", "How was the export test mended?", "BOOKS_ZONE|Europe/Berlin"),
    _q("failed", "Why was one event booked twice?", "outside of its transaction|not unique"),
    _q("failed", "How was double booking mended?", "on conflict do nothing"),
    _q("failed", "What was missing in the CLI?", "decorator"),
    _q("failed", "Why did reminder mails fail?", "sandbox", "hourly limit"),
    _q("decided", "What was refused?", "uv add pandas"),
    _q("decided", "Instead of pandas?", "csv module"),
    _q("decided", "What format does the export have?", "Latin-1", "semicolons"),
    _q("decided", "Why no deploy today?", "Friday", "16:00|16:21"),
    _q("decided", "When is the deploy?", "Monday|Montag"),
    _q("decided", "Which ticket does the yen commit name?", "LED-412"),
    _q("decided", "What should the dashboard lose?", "divides by 100|division"),
    _q("result", "Which invoices need a refund?", "2026-0291", "2026-0322"),
    _q("result", "Which customers have no email?", "10042", "10118"),
    _q("result", "How fast is the dunning page now?", "4.1 s", "38 ms"),
    _q("result", "What does EXPLAIN say?", "invoices_open_due_idx", "0.9 ms"),
    _q("result", "How did February's load test go?", "p50 310 ms", "4.3 s"),
    _q("result", "How much did the image grow?", "89 MB"),
    _q("result", "How many tests are there?", "236"),
    _q("result", "What about invoices to Austria?", "Reverse Charge"),
    _q("result", "Which pull request is it?", "981"),
    _q("result", "Where is the error rate?", "Grafana", "Errors by slot"),
    _q("result", "How is paging done now?", "游标", "(name, id)"),
    _q("result", "What does a line of --json hold?", "total_minor", "age_days"),
    _q("result", "How are the 10 percent chosen?", "hash of the customer"),
    _q("state", "What was asked last?", "in drei Sätzen"),
    _q("state", "What is open?", "Montag um 8:30", "Changelog"),
    _q("state", "What is missing for the release?", "changelog has no entry", "tag is not signed"),
    _q("state", "Is the yen commit pushed?", "Not pushed"),
    _q("state", "Is staging migrated?", "make migrate ENV=staging"),
    _q("state", "Which slot is live?", "Green is live"),
    _q("state", "When does the SMTP password take effect?", "Monday's deploy"),
)
