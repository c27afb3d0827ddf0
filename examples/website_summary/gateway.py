"""The gateway: the web app for people. It has no database; it calls ``signoff server``.

``uvicorn examples.website_summary.gateway:app --port 8080`` runs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Annotated, Literal
from urllib.parse import urlsplit

import httpx
from fastapi import Depends, FastAPI, Form, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from pydantic import BaseModel, Field, HttpUrl, ValidationError
from starlette.middleware.trustedhost import TrustedHostMiddleware

from examples.website_summary import pages
from examples.website_summary.settings import settings
from signoff import AlreadySettled, AsyncClient, IdConflict, NotFound, Promise
from signoff.errors import StoreUnavailable
from signoff.records import EntryKind, PromiseState

RUN_PREFIX = "summary-"


class Order(BaseModel):
    """A request for a summary."""

    url: HttpUrl
    email: str = Field(max_length=254, pattern=r"^[^@\s<>]+@[^@\s<>]+$")

    @property
    def page_url(self) -> str:
        """The normalised address, without its fragment."""
        return str(httpx.URL(str(self.url)).copy_with(fragment=None))


def same_site(request: Request) -> None:
    """Refuse a form that was submitted from another website."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("Host"):
        raise HTTPException(403, f"this form was sent from {origin}, not from this site")


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    """Hold one client for the life of the process. The server may start later."""
    async with AsyncClient(settings().server_url) as client:
        app.state.client = client
        yield


def the_client(request: Request) -> AsyncClient:
    """Return the process's client."""
    return request.app.state.client


Signoff = Annotated[AsyncClient, Depends(the_client)]

app = FastAPI(title="Website summaries", lifespan=connected)
app.add_middleware(
    TrustedHostMiddleware,
    allowed_hosts=["127.0.0.1", "localhost", urlsplit(settings().gateway_url).hostname or "localhost"],
)


@app.get("/", response_class=HTMLResponse)
async def start() -> str:
    """Show the form."""
    return pages.start()


@app.post("/summarize", dependencies=[Depends(same_site)])
async def summarize(request: Request, client: Signoff) -> Response:
    """Start a run, from a form or JSON. A repeated request for a page joins the same run."""
    as_json = request.headers.get("Content-Type", "").startswith("application/json")
    fields = await request.body() if as_json else json.dumps(dict(await request.form()), default=str)
    order = Order.model_validate_json(fields)
    page = hashlib.sha256(order.page_url.encode()).hexdigest()[:20]
    params = {"usable_id": page, "url": order.page_url, "email": order.email}
    run_id = RUN_PREFIX + page
    with suppress(IdConflict):  # another user asked for this page before, and decides about it
        await client.start("download_and_summarize", params, id=run_id)
    if as_json:
        return JSONResponse({"run_id": run_id, "see": f"/runs/{run_id}"}, 202)
    return RedirectResponse(f"/runs/{run_id}", 303)


@app.get("/runs/{run_id}", response_class=HTMLResponse)
async def run(run_id: str, client: Signoff) -> str:
    """Show the progress of a run, or its result."""
    handle = await client.get(run_id)
    status = await handle.status()
    if not status.is_final:
        return pages.progress(run_id, status)
    try:
        summary = await handle.result()
    except StoreUnavailable:
        raise
    except Exception as error:  # any error that ended the run
        return pages.message("There is no summary", str(error))
    return pages.result(summary)


@app.get("/confirm", response_class=HTMLResponse)
async def confirm(promise_id: str, client: Signoff) -> Response:
    """Show a summary with the two buttons. Mail scanners open links, too, so this changes nothing."""
    promise = await promise_of_ours(client, promise_id)
    if promise.state is not PromiseState.PENDING:
        return HTMLResponse(
            pages.message("Nothing to decide", "This summary has already been decided about.")
        )
    return HTMLResponse(pages.confirm(promise_id, await summary_before(client, promise)))


@app.post("/confirm", dependencies=[Depends(same_site)], response_class=HTMLResponse)
async def decide(
    promise_id: Annotated[str, Form()],
    decision: Annotated[Literal["accept", "reject"], Form()],
    client: Signoff,
) -> str:
    """Settle the promise that the run waits for."""
    await promise_of_ours(client, promise_id)
    await client.promises.resolve(promise_id, decision == "accept", by="gateway")
    if decision == "accept":
        return pages.message("Accepted", "Thank you. The summary is done.")
    return pages.message("Rejected", "Thank you. You will get a mail with another summary.")


async def promise_of_ours(client: AsyncClient, promise_id: str) -> Promise:
    """Return a summary's promise. Raises NotFound for any other."""
    promise = await client.promises.get(promise_id)
    if not (promise.run_id or "").startswith(RUN_PREFIX):
        raise NotFound("promise", promise_id)
    return promise


async def summary_before(client: AsyncClient, promise: Promise) -> dict[str, str]:
    """Return the summary that a promise asks about: the last one before it in the run's journal."""
    handle = await client.get(promise.run_id or "")
    summary = {"text": "", "made_by": "unknown"}
    async with aclosing(handle.events()) as events:
        async for entry in events:
            if entry.kind is EntryKind.COMPLETED and entry.name == "write_summary" and entry.value:
                summary = json.loads(entry.value)
            if entry.kind is EntryKind.OPENED and entry.n == promise.n:
                break
    return summary


# Errors as pages (or as JSON for clients that ask for it)


def refusal(request: Request, status: int, title: str, text: str) -> Response:
    """Return a one-line error."""
    if "text/html" in request.headers.get("Accept", ""):
        return HTMLResponse(pages.message(title, text), status)
    return JSONResponse({"detail": text}, status)


@app.exception_handler(NotFound)
async def not_found(request: Request, error: NotFound) -> Response:
    return refusal(request, 404, "Not found", f"There is no {error.noun} {error.id!r} here.")


@app.exception_handler(AlreadySettled)
async def too_late(request: Request, error: AlreadySettled) -> Response:
    return refusal(
        request, 409, "Too late", "This summary has already been decided about; nothing was changed."
    )


@app.exception_handler(ValidationError)
@app.exception_handler(RequestValidationError)
async def wrong_form(request: Request, error: ValidationError | RequestValidationError) -> Response:
    wrong = "; ".join(
        f"{each['loc'][-1] if each['loc'] else 'order'}: {each['msg']}" for each in error.errors()
    )
    return refusal(request, 422, "That is not quite right", wrong)


@app.exception_handler(StoreUnavailable)
async def server_away(request: Request, error: StoreUnavailable) -> Response:
    return refusal(request, 503, "Not now", str(error))
