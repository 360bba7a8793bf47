"""Bodies of OTLP requests and answers: bytes to protobuf messages and back, in both of OTLP's encodings."""

import json
import zlib
from base64 import b64encode
from typing import Any, TypeVar, cast

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from turnlens.collectors._untyped import status_pb2
from turnlens.collectors.errors import MalformedError, TooLargeError, UnsupportedError

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

M = TypeVar("M", bound=Message)

# OTLP's JSON writes these in hexadecimal, where protobuf's own mapping has base64.
_HEX = frozenset(("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"))
# Stands for an id that is no hexadecimal: its length is wrong, so its span is rejected (or a fault noted), and not the request.
_NOT_HEX = b64encode(b"?").decode()


def media_type(header: str) -> str:
    """Which of the two encodings a content type names. Raises UnsupportedError."""
    name = header.partition(";")[0].strip().lower()
    if name in (PROTOBUF, JSON):
        return name
    raise UnsupportedError(f"content type {name or '(none)'!r} is not known here; send {PROTOBUF} or {JSON}")


def decompress(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its content encoding, never more than ``limit`` bytes of it in memory."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise UnsupportedError(f"content encoding {encoding!r} is not known here; send gzip or none")
    whole = bytearray()
    rest = body
    while rest:  # a gzip body may have several members
        member = zlib.decompressobj(wbits=31)
        try:
            whole += member.decompress(rest, limit + 1 - len(whole))
        except zlib.error as error:
            raise MalformedError(f"the body is not gzip: {error}") from error
        if len(whole) > limit:
            raise TooLargeError(f"the body has more than {limit} bytes after decompression")
        if not member.eof:
            raise MalformedError("the gzip body ends too early")
        rest = member.unused_data
    return bytes(whole)


def parse(kind: type[M], body: bytes, media: str) -> M:
    """The message that the body holds. Raises MalformedError with what is wrong."""
    message = kind()
    if media == PROTOBUF:
        try:
            message.ParseFromString(body)
        except DecodeError as error:
            raise MalformedError(f"the body is not a protobuf {kind.DESCRIPTOR.name}: {error}") from error
        return message
    try:
        value = json.loads(body)
        if not isinstance(value, dict):
            raise MalformedError(f"the body is not a JSON object, so it is no {kind.DESCRIPTOR.name}")
        json_format.ParseDict(_with_base64_ids(value), message, ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise MalformedError(f"the body is no {kind.DESCRIPTOR.name} in JSON: {error}") from error
    except (ValueError, TypeError, AttributeError) as error:  # AttributeError: a list where ParseDict expects an object
        raise MalformedError(f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise MalformedError("the JSON body is nested too deeply") from error
    return message


def _with_base64_ids(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {key: _base64_id(item) if key in _HEX else _with_base64_ids(item) for key, item in fields.items()}
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in cast("list[object]", value)]
    return value


def _base64_id(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return b64encode(bytes.fromhex(value)).decode()
    except ValueError:
        return _NOT_HEX


def encode(message: Message, media: str) -> bytes:
    """The message in the encoding of the request that it answers."""
    if media == PROTOBUF:
        return message.SerializeToString()
    return json_format.MessageToJson(message, indent=None).encode()


def failure(code: int, text: str, media: str) -> bytes:
    """A google.rpc.Status, which OTLP wants as the body of every error."""
    return encode(status_pb2.Status(code=code, message=text), media)
