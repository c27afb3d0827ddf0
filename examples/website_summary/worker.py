"""The workflow. ``signoff worker examples.website_summary.worker:app`` runs it."""

from __future__ import annotations

import os

from examples.website_summary.download import NetworkResolutionError, download
from examples.website_summary.mail import send_email
from examples.website_summary.summarize import summarize
from signoff import Signoff

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"))


@app.workflow
def download_and_summarize(ctx, params):
    filename = yield ctx.lfc(download, params["usable_id"], params["url"]).options(
        durable=False, non_retryable_exceptions=(NetworkResolutionError,)
    )
    while True:
        summary = yield ctx.lfc(summarize, filename)
        promise = yield ctx.promise()
        yield ctx.lfc(send_email, summary, params["email"], promise.id)
        if (yield promise):  # resolved from another process, over HTTP
            break
    return summary
