"""The gateway's pages. All outside text is escaped here."""

from __future__ import annotations

from html import escape

STYLE = """
body { font: 1.05rem/1.55 system-ui, sans-serif; max-width: 38rem; margin: 3rem auto; padding: 0 1rem;
       color: #1a1a1a; background: #fff }
label { display: block; margin: 1rem 0 .25rem }
input { font: inherit; width: 100%; padding: .5rem; box-sizing: border-box }
button { font: inherit; padding: .6rem 1.2rem; margin: 1.2rem .6rem 0 0; cursor: pointer }
blockquote { margin: 1.5rem 0; padding: .2rem 1.2rem; border-left: .3rem solid #888 }
small { color: #555 }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #181818 } small { color: #aaa } a { color: #8cf }
}
"""


def page(title: str, body: str, refresh: bool = False) -> str:
    """Return a complete page around some HTML."""
    again = '<meta http-equiv="refresh" content="2">' if refresh else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{again}'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head><body><main><h1>{escape(title)}</h1>{body}</main></body></html>"
    )


def message(title: str, text: str) -> str:
    """Return a page with one message."""
    return page(title, f'<p>{escape(text)}</p><p><a href="/">Another page</a></p>')


def start() -> str:
    """Return the page with the form for a new summary."""
    return page(
        "Summarise a web page",
        '<form method="post" action="/summarize">'
        '<label for="url">Address of the page</label>'
        '<input id="url" name="url" type="url" required placeholder="https://">'
        '<label for="email">E-mail of the person who decides about the summary</label>'
        '<input id="email" name="email" type="email" required>'
        "<button>Summarise</button></form>",
    )


def progress(run_id: str, status: str) -> str:
    """Return the page of a run that has not ended."""
    stage = {
        "ready": "Waiting for a worker.",
        "running": "A worker is running it.",
        "paused": "Waiting: for the decision that the mail asks for, or for its next retry.",
    }
    return page("Your summary", f"<p>{stage[status]}</p><small>Run {escape(run_id)}</small>", refresh=True)


def result(summary: dict[str, str]) -> str:
    """Return the page of an accepted summary."""
    return page("The accepted summary", quoted(summary) + '<p><a href="/">Another page</a></p>')


def confirm(promise_id: str, summary: dict[str, str]) -> str:
    """Return the decision page. Viewing it changes nothing."""
    return page(
        "Is this summary good?",
        f'{quoted(summary)}<form method="post" action="/confirm">'
        f'<input type="hidden" name="promise_id" value="{escape(promise_id)}">'
        '<button name="decision" value="accept">Accept</button>'
        '<button name="decision" value="reject">Reject, make another</button></form>',
    )


def quoted(summary: dict[str, str]) -> str:
    """Return a summary and its author, as HTML."""
    return (
        f"<blockquote><p>{escape(summary['text'])}</p></blockquote>"
        f"<small>Made by {escape(summary['made_by'])}</small>"
    )
