"""Questions that cannot be read, or not as they should be."""

from __future__ import annotations

import json
from typing import Final

from tests.attacks.malformed import QUESTIONS

UNREADABLE: Final = {
    "no text": '{"text": 1}',
    "not JSON": "{",
    "a list": "[]",
    "a number": "1e999",
    "deep": "[" * 5_000,
    "another input": json.dumps({**json.loads(QUESTIONS[0]), "input_type": "telepathy"}),
    "a schema that leads nowhere": json.dumps(
        {**json.loads(QUESTIONS[0]), "answer_schema": {"$ref": "#/$defs/x"}}
    ),
    "an option without a label": json.dumps(
        {**json.loads(QUESTIONS[0]), "input_type": "select", "options": [{"value": "a"}]}
    ),
    "a form that is not one": json.dumps(
        {**json.loads(QUESTIONS[0]), "input_type": "form", "answer_schema": {"type": 7, "properties": []}}
    ),
    "a policy without sense": json.dumps({**json.loads(QUESTIONS[0]), "policy": {"quorum": 7}}),
    "an attachment that runs": json.dumps(
        {**json.loads(QUESTIONS[0]), "attachments": [{"name": "a", "url": "javascript:alert(1)"}]}
    ),
}
"""What another version, or a hand at the database, may leave there."""
