"""The measured workflows, for ``signoff worker benchmarks.remote_app:app``."""

import os

from benchmarks.programs import new_app

app = new_app(os.environ["SIGNOFF_STORE"])
