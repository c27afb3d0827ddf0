"""Python values and exceptions to JSON text and back.

What goes in comes back as its annotation declares it, the same as it was, or is refused with the path to it. Plain
data may stand for what is declared, such as a dict for a model: it is validated once, when it is given. Without an
annotation only plain JSON data comes back: a value that is not equal to it is refused, except that a tuple becomes a
list, with a warning. Nothing is pickled, imported or stored as its repr.

What JSON cannot say is this module's to decide:

- NaN and the infinities are refused. In a model, ``ser_json_inf_nan="strings"`` allows them.
- Bytes are base64. In a model they are as its own configuration says, which by default takes UTF-8 only.
- A datetime keeps its ``ZoneInfo`` and its fold: they are appended as in RFC 9557. Of other zones it keeps the offset.
- Dict keys become text and come back by their annotation. Tuples, None and the like are no keys.
- Models are written by field name. Private attributes and excluded fields are not written: a value that would come
  back with others is refused.
- Dataclasses and models are made anew at each reading: their validators and ``__post_init__`` run. If these change
  what they get, the value is refused.
"""

from signoff.codec.annotations import check_type, value_schema
from signoff.codec.arguments import decode_arguments, encode_arguments, settled_arguments, settled_value
from signoff.codec.exceptions import RemoteTraceback, decode_error, encode_error, round_trip_error
from signoff.codec.parameter_schema import REST, description_of, parameters_schema
from signoff.codec.signatures import return_annotation, settled_return_annotation
from signoff.codec.stand_in_errors import absent_classes, are_imported
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
