"""The third step: a mail that asks a person to decide."""

# pyright: basic

from email.message import EmailMessage
from email.policy import SMTP
from urllib.parse import urlencode

from examples.website_summary.files import write_atomically
from examples.website_summary.settings import settings
from examples.website_summary.smtp import deliver


def send_email(ctx, summary, email, promise_id):
    """Write a mail with the two links into the outbox folder, and send it if there is a mail server.

    The step may run again after a crash, so the mail's id is that of the step: the file is replaced, and mail programs
    show one mail.
    """
    print(f"mailing {promise_id}", flush=True)
    mail = EmailMessage(policy=SMTP)
    mail["Message-ID"] = f"<{ctx.id}@signoff.invalid>"
    mail["From"] = settings().sender
    mail["To"] = email
    mail["Subject"] = "A summary for you to accept or reject"
    links = [
        f"{verb}: {link(promise_id, confirm)}" for verb, confirm in (("Accept", "true"), ("Reject", "false"))
    ]
    mail.set_content("\n\n".join([summary, *links]) + "\n")
    if settings().smtp_url:
        deliver(mail)
    write_atomically(settings().outbox / f"{ctx.id}.eml", mail.as_bytes())


def link(promise_id, confirm):
    """Return the link that settles a promise."""
    query = urlencode({"promise_id": promise_id, "confirm": confirm})
    return f"{settings().gateway_url}/confirm?{query}"
