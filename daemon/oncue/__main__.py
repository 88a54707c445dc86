"""`python -m oncue` is `oncue`."""

from __future__ import annotations

import sys

from oncue.cli import main

sys.exit(main())
