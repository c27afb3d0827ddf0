"""The gateway: starts workflows and settles their promises, on resonate-sdk 0.6.7 and Flask.

``python -m examples.website_summary_resonate.gateway`` runs it. It does not import Signoff.
"""

# pyright: basic, reportMissingImports=false

import hashlib
import json
import os
import re
from urllib.parse import urlsplit

from flask import Flask, request
from resonate import Resonate
from resonate.errors import ResonateStoreError

FUNCTION = "downloadAndSummarize"
PROMISE = re.compile(rf"{FUNCTION}-[\w.-]+\.\d+", re.ASCII)
MAIL_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[\w.-]{1,189}", re.ASCII)

app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 10_000
resonate = Resonate.remote(group="gateway")


@app.post("/summarize")
def summarize():
    """Start a workflow without waiting for it. A repeated request for a page joins the same one."""
    order = request.get_json(silent=True)
    if not isinstance(order, dict) or not all(isinstance(order.get(name), str) for name in ("url", "email")):
        return {"error": "send JSON with url and email"}, 400
    if not is_web_address(order["url"]):
        return {"error": "url is not a web address"}, 400
    if not MAIL_ADDRESS.fullmatch(order["email"]):
        return {"error": "email is not a mail address"}, 400
    params = {"url": order["url"], "email": order["email"], "usable_id": clean(order["url"])}
    id = f"{FUNCTION}-{params['usable_id']}"
    handle = resonate.options(target="poll://any@worker").begin_rpc(id, FUNCTION, params)
    if not handle.done():
        return {"id": id, "summary": None}, 202
    try:
        return {"id": id, "summary": handle.result()}
    except Exception as error:  # any error that ended the workflow
        return {"id": id, "error": str(error)}, 500


@app.get("/confirm")
def confirm():
    """Settle the promise that a workflow waits for. The first decision counts."""
    id, decision = request.args.get("promise_id", ""), request.args.get("confirm")
    if decision not in ("true", "false"):
        return {"error": "confirm must be true or false"}, 400
    try:
        if not PROMISE.fullmatch(id) or "resonate:scope" in resonate.promises.get(id).tags:
            return {"error": f"no decision is asked with the id {id!r}"}, 404
    except ResonateStoreError as error:
        return {"error": error.mesg}, 404
    try:  # the key makes a second click on the same link, or a repetition by the SDK, a success
        resonate.promises.resolve(id, ikey=f"{id}-{decision}", data=json.dumps(decision == "true"))
    except ResonateStoreError as error:
        return {"error": error.mesg}, 409
    return {"message": "The summary is accepted." if decision == "true" else "You will get another summary."}


def is_web_address(url):
    """Whether a text is an http or https URL with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def clean(url):
    """Return a file name and id for a page: a readable part, and one that differs for each address."""
    readable = re.sub(r"[^a-z0-9]+", "-", url.partition("://")[2].lower()).strip("-")
    return f"{readable[:60]}-{hashlib.sha256(url.encode()).hexdigest()[:12]}".lstrip("-")


def main():
    app.run("127.0.0.1", int(os.environ.get("SUMMARY_GATEWAY_PORT", "8080")))


if __name__ == "__main__":
    main()
