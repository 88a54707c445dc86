"""A process of its own that claims and commits, for tests that race, stop and kill.

`python claim_process.py race FOLDER SESSIONS ROUNDS SEED`
    claims one of SESSIONS sessions at random, commits, releases, ROUNDS times. A commit appends a
    line to the session's ledger file inside of the transaction, as a run publishes its notes.
    Prints what it did as JSON.
`python claim_process.py once FOLDER SESSION STALE_S`
    claims (waiting for it), prints `claimed TOKEN`, waits for a line on stdin, commits, and prints
    `committed` or `refused`.
`python claim_process.py try FOLDER SESSION STALE_S`
    waits for a line on stdin, tries to claim once, prints `won TOKEN` or `held`, then waits for
    the end of stdin.
`python claim_process.py commit FOLDER SESSION STALE_S TEXT`
    one whole run on a real notes file: claim, intent, commit, release; prints `done`.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

from oncue.notes.file import NotesFile
from oncue.notes.places import NotesFolder
from oncue.notes_ports import NoteBudgets, SectionEdit
from oncue.store.claims import Claim, Claims, Held, LostClaimError
from oncue.store.cursors import Cursor, Cursors
from oncue.store.sessions_db import SessionsDb
from oncue_protocol import StoreUnavailable

MARKER = "/oncue-marker"
BUDGETS = NoteBudgets(2_000, 12_000)


def cursor(token: int, revision: str = "r") -> Cursor:
    return Cursor(f"m{token}", None, token, True, revision, b"abcdef")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def race(folder: Path, sessions: int, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    claims = Claims(SessionsDb(folder), stale_boot_s=0.05, stale_mono_s=0.05)
    cursors = Cursors(claims.db, claims)
    done = {"committed": 0, "held": 0, "refused": 0, "busy": 0}
    for _ in range(rounds):
        session = f"s{chance.randrange(sessions)}"
        try:
            answer = claims.claim(cursors.lease_name(session))
            if isinstance(answer, Held):
                done["held"] += 1
                continue
            if chance.random() < 0.02:
                time.sleep(0.06)  # long enough to be taken over
            elif chance.random() < 0.02:
                continue  # "killed": never released; taken over when stale
            ledger = folder / f"{session}.ledger"
            token = answer.token

            def publish(ledger: Path = ledger, token: int = token) -> str:
                with ledger.open("a") as file:
                    file.write(f"{token}\n")
                return "r"

            cursors.commit(
                answer,
                session,
                str(token),
                cursor(token),
                publish=publish,
                is_wanted=lambda: True,
            )
            done["committed"] += 1
            claims.release(answer)
        except LostClaimError:
            done["refused"] += 1
        except StoreUnavailable:
            done["busy"] += 1
    say(json.dumps(done))


def once(folder: Path, session: str, stale: float) -> None:
    claims = Claims(SessionsDb(folder), stale_boot_s=stale, stale_mono_s=stale)
    cursors = Cursors(claims.db, claims)
    answer = claims.claim(cursors.lease_name(session))
    while not isinstance(answer, Claim):
        time.sleep(0.01)
        answer = claims.claim(cursors.lease_name(session))
    say(f"claimed {answer.token}")
    sys.stdin.readline()
    notes = folder / "notes.md"

    def publish() -> str:
        notes.write_text(f"{answer.token}")
        return "r"

    try:
        cursors.commit(
            answer, session, "k", cursor(answer.token), publish=publish, is_wanted=lambda: True
        )
    except LostClaimError:
        say("refused")
    else:
        say("committed")


def try_once(folder: Path, session: str, stale: float) -> None:
    claims = Claims(SessionsDb(folder), stale_boot_s=stale, stale_mono_s=stale)
    name = Cursors(claims.db, claims).lease_name(session)
    say("ready")
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        answer = claims.claim(name)
        say(f"won {answer.token}" if isinstance(answer, Claim) else "held")


def commit(folder: Path, session: str, stale: float, text: str) -> None:
    claims = Claims(SessionsDb(folder / "state"), stale_boot_s=stale, stale_mono_s=stale)
    cursors = Cursors(claims.db, claims)
    notes = NotesFile(NotesFolder(str(folder), ("data", "notes")), session)
    os.access(MARKER, os.F_OK)  # imports are done: a tracer counts from here
    answer = claims.claim(cursors.lease_name(session))
    while not isinstance(answer, Claim):
        time.sleep(0.01)
        answer = claims.claim(cursors.lease_name(session))
    view = notes.read(BUDGETS)
    cursors.reconcile(answer, session, view.revision)
    prepared = notes.prepare([SectionEdit("Now", text), SectionEdit("Log", text)], view, BUDGETS)
    made = Cursor(text, text, 1, True, prepared.revision, b"abcdef")
    cursors.intend(answer, session, text, made, prepared.revision)
    cursors.commit(answer, session, text, made, publish=prepared.publish, is_wanted=lambda: True)
    claims.release(answer)
    say("done")


if __name__ == "__main__":
    what, where, *rest = sys.argv[1:]
    if what == "race":
        race(Path(where), int(rest[0]), int(rest[1]), int(rest[2]))
    elif what == "once":
        once(Path(where), rest[0], float(rest[1]))
    elif what == "try":
        try_once(Path(where), rest[0], float(rest[1]))
    else:
        commit(Path(where), rest[0], float(rest[1]), rest[2])
