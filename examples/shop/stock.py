"""A supplier's server that is down for a while: the step is retried, with growing waits."""

from __future__ import annotations

from examples.shop.app import app
from examples.shop.services import FeedUnreadable, fetch_feed, store_article
from signoff import Context, RetryPolicy


@app.workflow
async def import_stock(ctx: Context, supplier: str, first_wait_seconds: float = 20) -> dict[str, int]:
    articles = await ctx.step(
        fetch_feed,
        supplier,
        retry=RetryPolicy(initial_seconds=first_wait_seconds, max_attempts=12, jitter=False),
        non_retryable=(FeedUnreadable,),
    )
    for number, article in enumerate(articles, start=1):
        await ctx.step(f"store {article.number}", store_article, article)
        await ctx.progress("articles stored", done=number, total=len(articles))
    return {"articles": len(articles), "pieces": sum(article.pieces for article in articles)}
