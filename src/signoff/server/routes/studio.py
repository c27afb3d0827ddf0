"""Studio, the web UI. It is built from ``studio/`` together with the package, and contacts no other server."""

from __future__ import annotations

from html import escape
from importlib import resources
from typing import Annotated, Final

from fastapi import APIRouter, Path
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from signoff.server.http.path_ids import Id

router = APIRouter(include_in_schema=False)

_STATIC: Final = resources.files("signoff.server") / "static"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_BASE: Final = '<base href="/" />'
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_NOT_BUILT: Final = (
    "This Signoff was installed without Studio. Install a wheel, or run `make ready` in a checkout."
)

Asset = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.(css|js|svg)$")]


def _page() -> str | None:
    # Read each time: after a rebuild, the assets that an old page names no longer exist.
    try:
        return (_STATIC / "index.html").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


@router.get("/")
@router.get("/inbox")
@router.get("/runs")
@router.get("/promises")
@router.get("/sessions")
@router.get("/schedules")
@router.get("/workers")
@router.get("/rules")
@router.get("/audit")
@router.get("/keys")
@router.get("/deliveries")
@router.get("/start")
async def show_studio(request: Request) -> Response:
    """Return Studio's page, which routes by its address."""
    return _shown(request)


@router.get("/inbox/{place}")
@router.get("/runs/{place}")
@router.get("/promises/{place}")
@router.get("/sessions/{place}")
@router.get("/start/{place}")
@router.get("/groups/{place}")
async def show_place(request: Request, place: Id) -> Response:
    """Return the same page, which itself checks whether the place exists."""
    return _shown(request)


def _shown(request: Request) -> Response:
    page = _page()
    if page is None:
        raise HTTPException(404, _NOT_BUILT)
    root = escape(request.scope.get("root_path", "").rstrip("/"))
    based = page.replace(_BASE, f'<base href="{root}/" />', 1)
    return HTMLResponse(based, headers={"content-security-policy": _POLICY})


@router.get("/assets/{asset}")
async def load_part(asset: Asset) -> Response:
    """Return a script or style sheet of Studio. Its name contains a hash, so it may be cached permanently."""
    part = _STATIC / "assets" / asset
    if not part.is_file():
        raise HTTPException(404)
    kept = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(part.read_bytes(), media_type=_TYPES[asset.rpartition(".")[2]], headers=kept)
