"""Schemas of a kilobyte that would take a validator days, or too much memory.

Each is checked in a process of its own, whose time and memory are measured from outside. They are forked from one that
has imported the validator.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signoff.people.schemas.pattern_cost import open_size, pattern_size, pattern_states
from signoff.people.schemas.validation import problems, schema_problem
from tests.attacks.costly import COSTLY, Schema, doubling

MOST_SECONDS = 10  # of processor time, a slow machine included; the attacks took hours
MOST_KIB = 128 * 1024  # imports are 60 MB of it; the attacks took 23 GB

CHECKER = """
import json, os, resource, signal, sys
from signoff.people.schemas.validation import problems
for line in sys.stdin:
    forked = os.fork()
    if not forked:
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
        resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
        said = problems(*json.loads(line))
        print(json.dumps([os.getpid(), said]), flush=True)
        signal.pause()  # until it is measured
    if os.waitpid(forked, 0)[1] != signal.SIGKILL:
        print("null", flush=True)
"""


def below(name: str, keyword: str, schema: Schema) -> Schema:
    """The schema for a field, whose name is in the path of every problem."""
    return {"$defs": schema["$defs"], keyword: {name: {"$ref": schema["$ref"]}}}


def doubling_in_objects(levels: int) -> Schema:
    """The same, where each part is about a field of a value that has all of them."""
    parts: Schema = {
        f"a{n}": {"anyOf": [{"properties": {"x": {"$ref": f"#/$defs/a{n + 1}"}}}] * 2} for n in range(levels)
    }
    return {"$defs": {**parts, f"a{levels}": False}, "$ref": "#/$defs/a0"}


def within_itself(keyword: str) -> Schema:
    """A form that holds forms like itself in both of its branches, neither of which fits."""
    branch = {"properties": {"x": {"$ref": "#/$defs/form"}}}
    form = {keyword: [{**branch, "required": ["a"]}, {**branch, "required": ["b"]}]}
    return {"$defs": {"form": form}, "$ref": "#/$defs/form"}


def doubling_within_itself(levels: int) -> Schema:
    """Each part has two branches, and the last holds the first: the validator must remember what it has checked."""
    schema = doubling(levels, "anyOf")
    schema["$defs"][f"a{levels}"] = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}}
    return schema


def unevaluated(levels: int) -> Schema:
    schema: Schema = {"type": "object"}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


def branches(levels: int, keyword: str, last: Schema) -> Schema:
    """The last part is needed by many, all of which have the same problem."""
    schema = doubling(levels, keyword)
    schema["$defs"][f"a{levels}"] = last
    return schema


def nested(levels: int, innermost: Any = None) -> Any:
    value: Any = {} if innermost is None else innermost
    for _ in range(levels):
        value = {"x": value}
    return value


ATTACKS: dict[str, tuple[Schema, Any]] = {
    **{f"{keyword} doubled": (doubling(14, keyword), 1) for keyword in ("anyOf", "oneOf", "allOf")},
    **{f"{keyword} doubled thirty times": (doubling(30, keyword), 1) for keyword in ("anyOf", "oneOf")},
    "branches about a large value": (doubling(10, "anyOf"), list(range(10_000))),
    "doubled in objects": (doubling_in_objects(14), nested(14)),
    **{f"{keyword} within itself": (within_itself(keyword), nested(40)) for keyword in ("anyOf", "oneOf")},
    "doubled within itself": (doubling_within_itself(10), nested(40, 1)),
    "what is not evaluated": (unevaluated(60), {"a": 1}),
    "many branches": ({"items": {"anyOf": [{"type": "string"}] * 1_000}}, list(range(1_000))),
    "large patterns": ({"anyOf": [{"pattern": f"(a{{900}}){{9}}{n}"} for n in range(2_000)]}, "a"),
    "a circle": ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1),
    # what one check takes is not always little
    "options that are objects": (
        {"items": {"enum": [{"a": n} for n in range(50_000)]}},
        [{"a": 49_999}] * 60_000,
    ),
    "options that are fractions": (
        {"items": {"enum": [n + 0.5 for n in range(50_000)]}},
        [49_999.5] * 100_000,
    ),
    "options of many digits": (
        {"items": {"enum": [10**300 + n for n in range(3_000)]}},
        [10**300 + 2_999] * 3_000,
    ),
    "large options": ({"items": {"enum": [2**64 + n for n in range(20_000)]}}, [2**64 + 19_999] * 40_000),
    "dependent names": COSTLY["dependent names"],
    "a pattern of many states": ({"items": {"pattern": "[ab]*a[ab]{5000}c"}}, ["ab" * 4_900] * 100),
    "a pattern of a long text": (
        {"maxLength": 1_000_000, "pattern": "[ab]*a[ab]{5000}c"},
        "ab" * 499_999,
    ),
    "a pattern that goes back": ({"items": {"pattern": "(?:(?=a*c?)a)*b"}}, ["a" * 9_000] * 100),
    "patterns of keys that go back": (
        {"patternProperties": {rf"^(?=(a+)+$){n}(a+)\1b": {} for n in range(2_000)}},
        {"a" * (5_000 + n): 1 for n in range(100)},
    ),
    "patterns of letters": (
        {"anyOf": [{"pattern": rf"[\p{{L}}\p{{N}}]{{90}}{n}"} for n in range(1_900)]},
        "a",
    ),
    "patterns that a reference alone leads to": (
        {
            "more": [{"pattern": f"(a{{900}}){{9}}{n}"} for n in range(2_000)],
            "anyOf": [{"$ref": f"#/more/{n}"} for n in range(2_000)],
        },
        "a",
    ),
    "multiples of what is small": ({"items": {"multipleOf": 1e-300}}, [1e300] * 90_000),
    "formats of a long text": (doubling(10, "allOf") | {"format": "idn-hostname"}, "\u00fc" * 500_000),
    "many parts": ({"prefixItems": [{"minLength": 1}] * 60_000}, [""]),
    "schemas of schemas": (
        {"allOf": [{"$ref": "https://json-schema.org/draft/2020-12/schema"}] * 1_000},
        {"properties": {f"p{n}": {"type": 7} for n in range(10_000)}},
    ),
    # each problem holds a copy of its value
    **{
        f"{keyword} about a long text": (
            branches(12, keyword, {"const": 1}),
            "x" * 999_000 + "\N{PILE OF POO}",
        )
        for keyword in ("anyOf", "oneOf", "allOf")
    },
    "problems of a long text": (branches(9, "allOf", {"minLength": 2_000_000}), "x" * 1_000_000),
    "problems that quote a long text": (branches(10, "allOf", {"const": "x" * 900_000}), "y"),
    "problems that quote many lists": (branches(4, "allOf", {"const": [[]] * 300_000}), 1),
    "wrong names": ({"propertyNames": {"maxLength": 1}}, {f"x{n}": 0 for n in range(70_000)}),
    "missing names": ({"required": [f"r{n}" for n in range(9_000)]}, {"x": "y" * 900_000}),
    # each problem holds the path to its value
    "branches below a long name": (
        below("n" * 100_000, "properties", doubling(12, "anyOf")),
        {"n" * 100_000: 1},
    ),
    "branches below a long pattern": (
        below("n" * 9_000, "patternProperties", doubling(12, "anyOf")),
        {"n" * 9_000: 1},
    ),
    "many values below a long name": (
        {"properties": {"n" * 100_000: {"items": {"type": "string"}}}},
        {"n" * 100_000: list(range(5_000))},
    ),
    "many branches of many values": ({"items": {"anyOf": [{"type": "string"}] * 300}}, list(range(300))),
    # what is costly to estimate
    "many parts about many names": (
        {"allOf": [{"required": ["x"]}] * 1_000},
        {f"x{n}": 0 for n in range(70_000)},
    ),
    "deep values that hold much": (within_itself("anyOf"), nested(120, [[]] * 300_000)),
}


@pytest.fixture(scope="session")
def checker() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHECKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    with process:
        yield process


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_schema_makes_checking_an_answer_long_or_large(
    attack: str, checker: subprocess.Popen[str]
) -> None:
    assert checker.stdin is not None
    assert checker.stdout is not None
    checker.stdin.write(json.dumps(ATTACKS[attack]) + "\n")
    checked = json.loads(checker.stdout.readline())
    assert checked is not None, "it failed, took 30 seconds, or 4 GiB"
    pid, said = checked
    # not what wait4 says: that begins with the size of the process that forked
    highest = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    os.kill(pid, signal.SIGKILL)
    assert said
    assert highest is not None
    assert int(highest[1]) < MOST_KIB
    assert sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") < MOST_SECONDS


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (doubling(30, "anyOf"), "more than 100,000 checks for one value"),
        (doubling_in_objects(30), "more than 100,000 checks for one value"),
        (unevaluated(60), "more than 100,000 checks for one value"),
        (
            {"anyOf": [{"pattern": f"(a{{900}}){{9}}{n}"} for n in range(2_000)]},
            "its patterns expand to more than",
        ),
        (
            {"patternProperties": {f"(a{{900}}){{9}}{n}": {} for n in range(30)}},
            "its patterns expand to more than",
        ),
        ({"anyOf": [{"$ref": "#"}]}, "leads to itself"),
        ({"prefixItems": [{}] * 60_000}, "more than 20,000 parts"),
        ({"pattern": r"(\p{L}{90}){90}"}, "its patterns expand to more than"),
        (
            {"more": [{"pattern": "(a{900}){300}"}], "anyOf": [{"$ref": "#/more/0"}]},
            "its patterns expand to more than",
        ),
        ({"items": {"enum": [n + 0.5 for n in range(110_000)]}}, "more than 100,000 checks for one value"),
        (
            {"$defs": {"a": {"$id": "urn:a", "type": "string"}, "b": {"$id": "urn:a", "type": "null"}}},
            "two parts of it have the id 'urn:a'",
        ),
        ({"$defs": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, "uses another draft"),
        ({"const": [[]] * 160_000}, "more than 150,000 values"),
        ({"$ref": "urn:elsewhere"}, "has no target in the schema"),
        ({"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}]}, "leads to itself"),
        ({"$id": "https://a/b", "$defs": {"c": {"$id": "d", "not": {"$ref": "d"}}}}, "leads to itself"),
    ],
)
def test_the_author_of_such_a_schema_gets_an_error_at_its_creation(schema: Schema, reason: str) -> None:
    assert reason in (schema_problem(schema) or "")


TREE: Schema = {
    "$defs": {
        "tree": {
            "oneOf": [
                {"type": "integer"},
                {
                    "type": "object",
                    "properties": {
                        "left": {"$ref": "#/$defs/tree"},
                        "right": {"$ref": "#/$defs/tree"},
                        "op": {"enum": ["+", "-"]},
                    },
                    "required": ["left", "right", "op"],
                },
            ]
        }
    },
    "$ref": "#/$defs/tree",
}


def tree(levels: int, leaf: Any) -> Any:
    value = leaf
    for _ in range(levels):
        value = {"left": value, "right": 1, "op": "+"}
    return value


@pytest.mark.parametrize(
    ("schema", "fitting", "wrong", "field"),
    [
        (
            {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "maxLength": 900_000},
                    "name": {"type": "string", "pattern": r"^[\p{L} .'-]{1,80}$"},
                    "code": {"type": "string", "pattern": r"^(?!0)[A-Z0-9]{4,20}$"},
                    "price": {"type": "number", "multipleOf": 0.01},
                    "level": {"enum": [None, "low", "high", 0.5]},
                    **{f"field{n}": {"type": "string", "pattern": "^[^<>]{0,200}$"} for n in range(20)},
                },
                "required": ["text", *(f"field{n}" for n in range(20))],
                "additionalProperties": False,
            },
            {"text": "x" * 800_000, "price": 0.25, **{f"field{n}": "y" * 200 for n in range(20)}},
            {"text": "x" * 800_000, "price": 0.251, **{f"field{n}": "y" * 200 for n in range(20)}},
            "price",
        ),
        (
            {"items": {"properties": {"sku": {"pattern": r"^(?!X)[A-Z]{3}-\d{1,9}$"}}, "required": ["sku"]}},
            [{"sku": f"ABC-{n}"} for n in range(2_000)],
            [{"sku": f"ABC-{n}"} for n in range(1_000)] + [{"sku": "XBC-1"}],
            "1000.sku",
        ),
        (
            {"items": {"multipleOf": 0.01}},
            [1.25] * 20_000,
            [1.25] * 1_000 + [1.255],
            "1000",
        ),
        (TREE, tree(40, 1), tree(3, "x"), "left.left.left"),
        ({"items": {"pattern": "^.{0,5000}$"}}, ["a"] * 1_000, ["\n"], "0"),
        ({"items": {"pattern": "^.{0,10000}$"}}, ["a" * 10_000], ["a\n"], "0"),
        ({"items": {"pattern": r"^\S[\s\S]{0,9000}\S$"}}, ["a" * 9_000], [" a"], "0"),
        (
            {
                "items": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]},
                "$defs": {"a": {"required": ["n"]}},
            },
            [{"n": n} for n in range(10_000)],
            [{"n": 1}, {}],
            "1.n",
        ),
    ],
)
def test_ordinary_forms_that_hold_much_are_checked_and_explained(
    schema: Schema, fitting: Any, wrong: Any, field: str
) -> None:
    assert schema_problem(schema) is None
    assert problems(schema, fitting) == []
    assert field in [found for found, _ in problems(schema, wrong)]


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("abc", 3),
        ("a{3}", 3),
        ("a{2,7}", 7),
        ("a{2,}", 2),
        ("((a{100}){100}){10}", 100 * 100 * 10),
        ("a{1000}{1000}", 1_000_000),
        (r"\{3}", 3),
        ("[^]{5}]{4}", 4),
        ("(((((", 0),
        ("))){4}", 3),
        (r"\p{L}{5}", 5),
        (r"\x{41}{5}", 5),
        ("a{" + "9" * 400 + "}", 1),
    ],
)
def test_what_a_pattern_repeats_is_counted_as_often(pattern: str, states: int) -> None:
    assert states <= pattern_size(pattern) <= states * 1.2 + 405


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"pattern": r"^\p{L}{0,300}$"}, "pattern: "),
        ({"properties": {"a": {"pattern": "("}}}, "properties.a.pattern: "),
        ({"allOf": [{"if": {}, "then": {"pattern": "("}}]}, "allOf.0.then.pattern: "),
        ({"properties": {"pattern": {"type": "x"}}}, "properties.pattern.type: "),
    ],
)
def test_a_refusal_names_the_place_in_the_schema_as_it_was_given(schema: Schema, problem: str) -> None:
    assert (schema_problem(schema) or "").startswith(problem)


def test_a_reference_with_a_number_of_thousands_of_digits_leads_to_nothing() -> None:
    said = schema_problem({"allOf": [True], "$ref": "#/allOf/" + "1" * 5_000})
    assert said is not None
    assert "deep" not in said


@pytest.mark.parametrize(
    ("pattern", "is_sequence"),
    [
        ("^.{0,10000}$", True),
        (r"^[\s\S]{1,10000}$", True),
        (r"^[^\]<>]{0,9000}", True),
        (r"^\S.{0,9998}\S$", True),
        (r"^\d{5000}$", True),
        (".{0,10000}$", False),
        ("^.{0,5000}.{0,5000}$", False),
        ("^a*.{0,5000}$", False),
        ("^a?.{0,5000}$", False),
        ("^(?:.{0,100}){0,100}$", False),
        ("^a|.{0,5000}$", False),
        ("^.{0,50}{0,50}$", False),
        ("^.{0,5000}a{3000}$", False),
        (r"^\b{0,5000}$", False),
        ("^[a-z&&[^b]]{0,5000}$", False),
    ],
)
def test_only_sequences_with_one_repeated_part_have_few_open_positions(
    pattern: str, is_sequence: bool
) -> None:
    assert (open_size(pattern) < 10) is is_sequence


def test_a_class_of_many_characters_has_many_states() -> None:
    assert pattern_states(r"^[a-z]{30}$") < 50
    assert pattern_states(r"^\p{L}{30}$") > 5_000
    assert pattern_states(r"^[\p{L} ]{30}$") > 5_000
