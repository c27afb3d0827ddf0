"""The worker with another question: the summary is decided on in Signoff's inbox, by the person who asked for it.

``python -m examples.website_summary_resonate.inbox_worker`` runs it, in the place of the other worker.
"""

# pyright: basic, reportMissingImports=false

import json
import os
from threading import Event

from resonate import Resonate

from examples.website_summary_resonate.download import NetworkResolutionError, PageRefused, download
from examples.website_summary_resonate.summarize import NoFurtherSummary, summarize

resonate = Resonate.remote(group="worker", ttl=int(os.environ.get("SUMMARY_LEASE_SECONDS", "10")))


@resonate.register(name="downloadAndSummarize")
def download_and_summarize(ctx, params):
    filename = yield ctx.lfc(download, params["usable_id"], params["url"]).options(
        durable=False, non_retryable_exceptions=(NetworkResolutionError, PageRefused)
    )
    while True:
        summary = yield ctx.lfc(summarize, filename).options(non_retryable_exceptions=(NoFurtherSummary,))
        question = {"text": f"Accept this summary of {params['url']}?", "help": summary}
        question["assignees"] = [f"user:{params['email']}"]
        promise = yield ctx.promise(tags={"signoff:question": json.dumps(question)})
        answer = yield promise
        if answer["approved"]:
            return summary


def main():
    resonate.start()
    Event().wait()


if __name__ == "__main__":
    main()
