"""The state machine of the Python SDK's own local server, for its environment: a request a line, and its reply.

A line is ``{"now": ..., "request": ..., "task": ...}``, with the time in unix milliseconds. The request is given the
version of that task. The reply is that of the server, or ``{"head": {"status": ...}}`` of the error that it raises.
"""

import json
import sys

from resonate.connections.local import ServerState, unwrap_request_envelope, wrap_response_envelope
from resonate.error import ServerError

state = ServerState()
for line in sys.stdin:
    asked = json.loads(line)
    request = unwrap_request_envelope(asked["request"])
    if (task := state.tasks.get(asked["task"])) is not None:
        request["version"] = task.version
    try:
        reply = wrap_response_envelope(state.apply(asked["now"], request))
    except ServerError as error:
        reply = {"head": {"status": error.code}, "data": str(error)}
    print(json.dumps(reply), flush=True)
