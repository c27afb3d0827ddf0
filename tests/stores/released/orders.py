"""The workflows of the recorded databases beside this file. Their journals are replayed: change nothing here."""

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
        fetched = await ctx.step("fetch", note, f"fetch {id}")
        answer = await ctx.wait_for_user(f"Pay {id}?")
        paid = await ctx.step("pay", note, f"pay {id}")
        return [fetched, answer.approved, paid]

    @app.workflow
    async def sleeper(ctx: Context) -> str:
        await ctx.step("before", note, "before")
        await ctx.sleep(3600)
        return await ctx.step("after", note, "after")

    @app.workflow
    async def parent(ctx: Context) -> str:
        handle = await ctx.rfi(child)
        return await handle + await ctx.rfc(child)

    _ = (order, sleeper, parent)
