"""A program with resonate-sdk 0.6.7: a worker, or one that starts a function. It does not import Signoff."""

# pyright: basic, reportMissingImports=false

import sys
import time
from pathlib import Path

from resonate import Resonate
from resonate.message_sources import Poller
from resonate.stores import RemoteStore


def mark(name):
    with open("marks", "a") as marks:
        marks.write(f"{name}\n")


def begin(ctx, id):
    mark("begin")
    return 1


def slow(ctx, id):
    mark("slow")
    while not Path("go").exists():
        time.sleep(0.02)
    return 2


def end(ctx, id):
    mark("end")
    return 3


def workflow(ctx, id):
    a = yield ctx.rfc("begin", id)
    b = yield ctx.rfc("slow", id)
    c = yield ctx.rfc("end", id)
    return a + b + c


def waits(ctx, id):
    mark("asked")
    promise = yield ctx.promise(id=f"{id}.answer")
    value = yield promise
    mark("answered")
    return value


name, role, *rest = sys.argv[1:]
resonate = Resonate(
    store=RemoteStore(),
    message_source=Poller("default" if role == "work" else "callers", name),
    pid=name,
    ttl=3,
)
for function in (begin, slow, end, workflow, waits):
    resonate.register(function)
resonate.start()
print("started", flush=True)
if role == "work":
    time.sleep(600)
function, id = rest
print(f"result={resonate.rpc(id, function, id)}", flush=True)
