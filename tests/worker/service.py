"""A web service with a worker in its lifespan, as users write one, under uvicorn."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import uvicorn
from fastapi import FastAPI

from pynamodb_tracker import AsyncContext, AsyncWorker
from tests.worker.program import PATIENCE, print_line
from tests.worker.shop import Order


async def hang(ctx: AsyncContext[Order]) -> None:
    print_line(f"{ctx.task.task_id} {os.getpid()}")
    try:
        await asyncio.sleep(PATIENCE)
    except asyncio.CancelledError:
        print_line("cancelled")
        raise


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    worker = AsyncWorker({Order.confirm: hang}, grace=timedelta(seconds=json.loads(sys.argv[1])["grace"]))
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        yield
        worker.stop()
    print_line("ended")


if __name__ == "__main__":
    uvicorn.run(FastAPI(lifespan=lifespan), host="127.0.0.1", port=0)
