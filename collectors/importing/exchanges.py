"""Requests to OpenAI- and Anthropic-compatible servers with their responses, in one form.

Usage means the same for both here: ``prompt_tokens`` are all tokens of the prompt, ``cached_tokens`` those of them that were
read from a cache. OpenAI counts so; Anthropic's ``input_tokens`` leaves out what was read from the cache and what was written
to it (https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching: total input is the sum of the three).

Text is read to be digested, and is never kept.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from turnlens.collectors.importing.shapes import items, objects, whole

_MS = 1_000_000


class Said(NamedTuple):
    """One message: its role, and its text as it decides the prompt."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as a server counts them; None where it does not say. ``restored`` are those of the cached ones that came from
    another tier than the device: (tier, tokens) each. A ``retracted`` request of SGLang's may count its own work as cached:
    then ``cached_tokens`` is None."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    restored: tuple[tuple[str, int], ...] = ()
    retracted: bool = False


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's own: tokens from its cache (None of older releases), computed tokens, and the time that these took."""

    cache_n: int | None
    prompt_n: int
    prompt_ns: int
    predicted_n: int | None
    predicted_ns: int | None


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response. Times are wall ns."""

    request_id: str
    model: str | None
    conversation_id: str | None
    messages: tuple[Said, ...]  # tools first, as one message of the role ``tools``
    answer: Said | None
    usage: Usage
    timings: Timings | None
    start_ns: int | None
    first_token_ns: int | None
    end_ns: int | None
    status: str
    reads_cache: bool
    traceparent: str | None = None
    token_ids: tuple[int, ...] | None = None  # of the prompt, where it was given so
    answer_ids: tuple[int, ...] | None = None


class NotAnExchangeError(ValueError):
    """A record that is no request; says what is missing."""


# -- messages ---------------------------------------------------------------------------------------------------------------


def messages_of(request: dict[str, Any]) -> tuple[Said, ...]:
    """The messages of a request in the order in which a template writes them: tools, system, the others. Anthropic's ``system``
    stands beside its messages; a plain ``prompt`` is one message. Raises NotAnExchangeError."""
    found: list[Said] = []
    if tools := items(request.get("tools")):
        found.append(Said("tools", _plain(tools)))
    if isinstance(request.get("system"), str | list):
        found.append(Said("system", _text(request["system"])))
    for message in items(request.get("messages")):
        given = objects(message)
        if given is None:
            raise NotAnExchangeError("a message that is no object")
        found.append(_message(given))
    if "messages" not in request:
        names = ("prompt", "input", "text", "input_ids")
        plain = (name for name in names if isinstance(request.get(name), str | list))
        found += [Said(name, _text(request[name])) for name in plain]
    if not any(said.role not in ("tools", "system") for said in found):
        raise NotAnExchangeError("no messages, prompt or input")
    return tuple(found)


def token_ids_of(body: dict[str, Any], *names: str) -> tuple[int, ...] | None:
    """A prompt or an answer that is a list of token ids, by one of these names."""
    for name in names:
        given = items(body.get(name))
        if given and all(type(each) is int and each >= 0 for each in given):
            return tuple(given)
    return None


def answer_of(response: dict[str, Any]) -> Said | None:
    """What was answered, as the next request would repeat it. Of several answers nobody knows which one that is."""
    if len(items(response.get("choices"))) > 1:
        return None
    for choice in map(objects, items(response.get("choices"))[:1]):
        if choice is not None and (message := objects(choice.get("message"))) is not None:
            return _message({"role": "assistant", **message})
        if choice is not None and isinstance(choice.get("text"), str):
            return Said("assistant", choice["text"])
    if "meta_info" in response and isinstance(response.get("text"), str):
        return Said("assistant", response["text"])
    if response.get("type") == "message" and isinstance(response.get("content"), list):
        return _message({"role": "assistant", "content": response["content"]})
    return None


def _message(message: dict[str, Any]) -> Said:
    role = message.get("role")
    text = _text(message.get("content")) + "".join(_call(call) for call in items(message.get("tool_calls")))
    thinking = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(thinking, str) and thinking:
        text = f"<think>{thinking}</think>{text}"
    return Said(role if isinstance(role, str) else "", text)


def _call(call: object) -> str:
    """A tool call without its id, which a server makes up anew."""
    given = objects(call)
    return _plain(given["function"] if given is not None and "function" in given else call)


def _text(content: object) -> str:
    """Content as text: of blocks their texts, what is no text as it is written in JSON."""
    if isinstance(content, str):
        return content
    blocks = items(content)
    if blocks and all(isinstance(block, str | dict) for block in blocks):
        return "".join(map(_block, blocks))
    return "" if content is None or content == [] else _plain(content)


def _block(block: object) -> str:
    if isinstance(block, str):
        return block
    given = objects(block)
    if given is None:
        return _plain(block)
    if given.get("type") in ("text", "input_text", "output_text") and isinstance(given.get("text"), str):
        return str(given["text"])
    if given.get("type") == "thinking" and isinstance(given.get("thinking"), str):
        return f"<think>{given['thinking']}</think>"
    # Marks for the server's cache are no part of the prompt.
    return _plain({name: value for name, value in given.items() if name != "cache_control"})


def _plain(value: object) -> str:
    """As it was written: the order of keys decides the prompt."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# -- usage ------------------------------------------------------------------------------------------------------------------


def usage_of(response: dict[str, Any]) -> Usage:
    """The response's usage, OpenAI's or Anthropic's, in one meaning."""
    usage, native = objects(response.get("usage")), objects(response.get("meta_info"))
    if native is not None:  # SGLang's own
        cached, output = whole(native.get("cached_tokens")), whole(native.get("completion_tokens"))
        if whole(native.get("num_retractions", native.get("total_retractions"))):
            return Usage(whole(native.get("prompt_tokens")), None, output, retracted=True)
        return Usage(whole(native.get("prompt_tokens")), cached, output, _tiers(native.get("cached_tokens_details"), cached))
    if usage is None:
        return Usage()
    if "input_tokens" not in usage or "prompt_tokens" in usage:
        details = objects(usage.get("prompt_tokens_details"))
        cached = whole(usage.get("prompt_cache_hit_tokens") if details is None else details.get("cached_tokens"))
        tiers = _tiers((details or {}).get("cached_tokens_details"), cached)
        return Usage(whole(usage.get("prompt_tokens")), cached, whole(usage.get("completion_tokens")), tiers)
    given, output = whole(usage.get("input_tokens")), whole(usage.get("output_tokens"))
    details = objects(usage.get("input_tokens_details"))
    if details is not None:  # OpenAI's responses
        return Usage(given, whole(details.get("cached_tokens")), output)
    read, written = whole(usage.get("cache_read_input_tokens")), whole(usage.get("cache_creation_input_tokens"))
    return Usage(None if given is None else given + (read or 0) + (written or 0), read, output)


def _tiers(details: object, cached: int | None) -> tuple[tuple[str, int], ...]:
    """SGLang's ``cached_tokens_details``: what came from the host, and from storage behind a backend of some name."""
    given = objects(details)
    if given is None or cached is None:
        return ()
    host, storage = whole(given.get("host")) or 0, whole(given.get("storage")) or 0
    if host + storage > cached:
        return ()
    storing = "disk" if given.get("storage_backend") == "file" else "remote"
    return tuple((tier, tokens) for tier, tokens in (("host", host), (storing, storage)) if tokens)


def timings_of(response: dict[str, Any]) -> Timings | None:
    """llama-server's timings, where the response has them."""
    given = objects(response.get("timings"))
    if given is None:
        return None
    computed, took = whole(given.get("prompt_n")), _ns(given.get("prompt_ms"))
    if computed is None or took is None:
        return None
    return Timings(whole(given.get("cache_n")), computed, took, whole(given.get("predicted_n")), _ns(given.get("predicted_ms")))


def _ns(milliseconds: object) -> int | None:
    if isinstance(milliseconds, int | float) and 0 <= milliseconds < 1e9:
        return round(milliseconds * _MS)
    return None


def texts(messages: Sequence[Said]) -> list[tuple[str, None, str]]:
    """As the recorder takes messages: their digests are all that it keeps."""
    return [(said.text, None, said.role) for said in messages]
