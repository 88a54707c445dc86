"""Plays recorded agent sessions through a daemon, as their editor would have spoken.

script.py    what a recording asks of a player: how long to pause before each event (pure)
history.py   the request's messages as a client keeps them (pure; R15)
report.py    what happened in each turn, and the totals (pure)
lender.py    the scripted model that is lent to the daemon
stage.py     temporary folders, the memory folder, and the daemon's environment
player.py    events → protocol, turn by turn
timeline.py  the report on a terminal, live.py while it grows, machine.py as JSON lines
commands.py  `oncue replay` and `oncue demo`; picture.py draws the README's picture
"""
