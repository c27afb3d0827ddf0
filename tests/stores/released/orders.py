"""The workflows of the recorded databases beside this file. Their journals are replayed: change nothing here.

The journals are older than the comparing of arguments.
"""

from __future__ import annotations

from signoff import Context, Signoff

calls: list[str] = []


def note(name: str) -> str:
    calls.append(name)
    return name


def register(app: Signoff) -> None:
    """Register the workflows of the recorded runs."""

    @app.workflow
    async def child(ctx: Context) -> str:
        return await ctx.wait_for_signal("go", returns=str)

    @app.workflow
    async def order(ctx: Context, id: str) -> list[object]:
        fetched = await ctx.step("fetch", note, f"fetch {id}", compare=None)
        answer = await ctx.wait_for_user(f"Pay {id}?")
        paid = await ctx.step("pay", note, f"pay {id}", compare=None)
        return [fetched, answer.approved, paid]

    @app.workflow
    async def sleeper(ctx: Context) -> str:
        await ctx.step("before", note, "before", compare=None)
        await ctx.sleep(3600)
        return await ctx.step("after", note, "after")

    @app.workflow
    async def parent(ctx: Context) -> str:
        handle = await ctx.rfi(child)
        return await handle + await ctx.rfc(child)

    _ = (order, sleeper, parent)
