"""Checks Studio's sources: their types, against the API's OpenAPI description, and their style."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from signoff import Signoff
from signoff.server import create_server_app
from signoff.testing import MemoryStore

sys.path.insert(0, str(Path(__file__).parent.parent))
from studio.build import STUDIO, install, run_tool

SCHEMA = STUDIO / "src" / "api" / "schema.d.ts"


def main() -> None:
    """Check, or raise SystemExit."""
    install()
    described = json.dumps(create_server_app(Signoff(MemoryStore())).openapi())
    with tempfile.TemporaryDirectory() as folder:
        description = Path(folder) / "openapi.json"
        description.write_text(described)
        run_tool("openapi-typescript/bin/cli.js", str(description), "--output", str(SCHEMA))
    run_tool("typescript/bin/tsc", "--noEmit")
    run_tool("eslint/bin/eslint.js", "--max-warnings=0", ".")
    run_tool("prettier/bin/prettier.cjs", "--check", "--log-level=warn", ".")


if __name__ == "__main__":
    main()
