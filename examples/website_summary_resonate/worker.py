"""The worker: the workflow and its steps, on resonate-sdk 0.6.7. It does not import Signoff.

``python -m examples.website_summary_resonate.worker`` runs it.
"""

# pyright: basic, reportMissingImports=false

import os
from threading import Event

from resonate import Resonate

from examples.website_summary_resonate.download import NetworkResolutionError, PageRefused, download
from examples.website_summary_resonate.mail import send_email
from examples.website_summary_resonate.summarize import NoFurtherSummary, summarize

resonate = Resonate.remote(group="worker", ttl=int(os.environ.get("SUMMARY_LEASE_SECONDS", "10")))


@resonate.register(name="downloadAndSummarize")
def download_and_summarize(ctx, params):
    filename = yield ctx.lfc(download, params["usable_id"], params["url"]).options(
        durable=False, non_retryable_exceptions=(NetworkResolutionError, PageRefused)
    )
    while True:
        summary = yield ctx.lfc(summarize, filename).options(non_retryable_exceptions=(NoFurtherSummary,))
        promise = yield ctx.promise()
        yield ctx.lfc(send_email, summary, params["email"], promise.id)
        confirmed = yield promise  # the gateway resolves it
        if confirmed is True:
            return summary


def main():
    resonate.start()
    Event().wait()


if __name__ == "__main__":
    main()
