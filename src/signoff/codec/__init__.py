"""Python values and exceptions to JSON text and back.

A value comes back equal and of the same type, as its annotation declares it, or it is refused with the path to the
problem. Plain data may be passed for a declared type, such as a dict for a model: it is validated once, when it is
passed. Without an annotation a value comes back as plain JSON data: a value that is not equal to that is refused,
except that a tuple becomes a list, with a warning. Nothing is pickled, imported or stored as its repr.

Rules for values that JSON does not have:

- NaN and the infinities are refused. In a model, ``ser_json_inf_nan="strings"`` allows them.
- Bytes are base64. In a model its own configuration decides; pydantic's default takes UTF-8 only.
- A datetime keeps its ``ZoneInfo`` and its fold, appended as in RFC 9557. For other time zones it keeps the offset.
- Dict keys become strings and come back by their annotation. Keys such as tuples and None are refused.
- Models are written by field name. Private attributes and excluded fields are not written: the value is refused if
  they would come back different.
- Each read constructs dataclasses and models again, so their validators and ``__post_init__`` run. The value is
  refused if these change it.
"""

from signoff.codec.annotations import check_type, value_schema
from signoff.codec.arguments import decode_arguments, encode_arguments, settled_arguments, settled_value
from signoff.codec.exceptions import RemoteTraceback, decode_error, encode_error, round_trip_error
from signoff.codec.parameter_schema import REST, description_of, parameters_schema
from signoff.codec.placeholder_errors import absent_classes, are_imported
from signoff.codec.signatures import return_annotation, settled_return_annotation
from signoff.codec.time_zones import bare as bare_time
from signoff.codec.type_hints import shape_of
from signoff.codec.values import (
    MAX_BYTES,
    MAX_CARRIED,
    decode,
    digest,
    encode,
    encode_for,
    normalize,
    warn_reader,
)

__all__ = [
    "MAX_BYTES",
    "MAX_CARRIED",
    "REST",
    "RemoteTraceback",
    "absent_classes",
    "are_imported",
    "bare_time",
    "check_type",
    "decode",
    "decode_arguments",
    "decode_error",
    "description_of",
    "digest",
    "encode",
    "encode_arguments",
    "encode_error",
    "encode_for",
    "normalize",
    "parameters_schema",
    "return_annotation",
    "round_trip_error",
    "settled_arguments",
    "settled_return_annotation",
    "settled_value",
    "shape_of",
    "value_schema",
    "warn_reader",
]
