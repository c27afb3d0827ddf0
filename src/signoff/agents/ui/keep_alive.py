"""Keeps a stream of server-sent events open through proxies while nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

SECONDS: Final = 15.0

COMMENT: Final = ": waiting\n\n"


async def kept_alive(stream: AsyncIterator[str], *, seconds: float = SECONDS) -> AsyncGenerator[str]:
    """Yield a stream's text, and a comment whenever it has none for some seconds."""
    arriving: asyncio.Queue[str | BaseException | None] = asyncio.Queue(maxsize=1)

    async def read() -> None:
        try:
            async for text in stream:
                await arriving.put(text)
        except Exception as error:
            await arriving.put(error)
        else:
            await arriving.put(None)

    reading = asyncio.create_task(read())
    try:
        while True:
            try:
                async with asyncio.timeout(seconds):
                    text = await arriving.get()
            except TimeoutError:
                yield COMMENT
                continue
            if isinstance(text, BaseException):
                raise text
            if text is None:
                return
            yield text
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
