"""What byte-level BPE says of bytes: how tokens spell them, and what a decoder does to the text they make.

Knows nothing of vocabularies.
"""

from collections.abc import Mapping
from typing import Any

from local_llm_engine.errors import ChatTemplateError, shown


def bytes_of_token(name: str) -> bytes:
    """Read the bytes that a token's name spells; a name that spells none is text."""
    try:
        return bytes(_BYTE_OF_CHARACTER[character] for character in name)
    except KeyError:
        return name.encode()


def decoder_replacements(decoder: Any) -> tuple[tuple[str, str], ...]:
    """Read what the decoder replaces once the bytes are joined: (pattern, replacement), in order.

    Raises:
        ChatTemplateError: the decoder is something else than byte-level with plain replacements.
    """
    match decoder:
        case {"type": "ByteLevel"}:
            return ()
        case {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, *rest]}:
            return tuple(
                _replacement(step) for step in rest if step.get("type") != "Fuse"
            )
    raise ChatTemplateError(
        "only byte-level BPE tokenizers are supported; the decoder is of another kind"
    )


def _replacement(step: Mapping[str, Any]) -> tuple[str, str]:
    match step:
        case {
            "type": "Replace",
            "pattern": {"String": str() as pattern},
            "content": str() as content,
        } if pattern:
            return pattern, content
    raise ChatTemplateError(
        f"the decoder's step {shown(step.get('type'))} is not supported"
    )


def _byte_of_character() -> dict[str, int]:
    """GPT-2's table: printable bytes stand for themselves, the others for characters from U+0100 on.

    Source: byte-level BPE of Radford et al. 2019 ("Language Models are Unsupervised Multitask Learners").
    """
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + index): byte for index, byte in enumerate(others)
    }


_BYTE_OF_CHARACTER = _byte_of_character()
