"""The page with the API docs. It loads everything from this server."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Final, Literal

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

router = APIRouter(prefix="/docs", include_in_schema=False)

_SCRIPT: Final = 'SwaggerUIBundle({url: "openapi.json", dom_id: "#api", deepLinking: true})'
_PAGE: Final = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><title>Signoff: the HTTP API</title><link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body><div id="api"></div><script src="docs/swagger-ui-bundle.js"></script><script>{_SCRIPT}</script></body>
</html>
"""
_HASH: Final = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; script-src 'self' 'sha256-{_HASH}'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES: Final = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}


@router.get("")
async def show_api_docs() -> Response:
    """Show the interactive API docs."""
    return HTMLResponse(_PAGE, headers={"content-security-policy": _POLICY})


@router.get("/{asset}")
async def load_asset(asset: Literal["swagger-ui.css", "swagger-ui-bundle.js"]) -> Response:
    """Return a script or style sheet of the page."""
    content = (resources.files("fastapi_offline") / "static" / asset).read_bytes()
    return Response(content, media_type=_TYPES[asset], headers={"cache-control": "private, max-age=86400"})
