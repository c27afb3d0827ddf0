"""The whole API, tried by its own description: whatever is sent, what comes back is what was described.

``SIGNOFF_API_EXAMPLES`` is how many requests are made up for each operation, ``SIGNOFF_API_SEED`` what they grow from.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import httpx
import pytest
import schemathesis
from schemathesis.checks import CheckFunction, load_all_checks
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection, unsupported_method

from signoff.server import Server
from signoff.server.examples import PROMISE_ID, QUESTION_ID, RUN_ID, SCHEDULE_ID
from tests.server.conftest import app_in, asked, serving, start
from tests.server.described import description
from tests.server.proxied import PROXY, through
from tests.support import OnThread

EXAMPLES = int(os.environ.get("SIGNOFF_API_EXAMPLES", "12"))
SEED = int(os.environ.get("SIGNOFF_API_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
STREAMS = {"follow_journal"}
"""Operations whose replies have no end."""
