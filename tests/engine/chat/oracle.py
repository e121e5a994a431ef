"""What transformers makes of a request: the text and token ids that ours must equal."""

from collections.abc import Sequence
import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from local_llm_engine.types import ChatRequest, Message, ToolSpec


class Oracle:
    """The reference library's tokenizer and template of one folder."""

    def __init__(self, folder: Path) -> None:
        """Read the folder's files."""
        config = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._reference = PreTrainedTokenizerFast(
            tokenizer_object=self.tokenizer, eos_token=config["eos_token"]
        )
        self._reference.chat_template = (folder / "chat_template.jinja").read_text(
            "utf-8"
        )

    def text(self, request: ChatRequest, *, add_generation_prompt: bool = True) -> str:
        """Render a request."""
        text = self._reference.apply_chat_template(
            as_dicts(request.messages),
            tools=tools_as_dicts(request.tools) or None,
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            enable_thinking=request.thinking,
        )
        assert isinstance(text, str)
        return text

    def token_ids(self, text: str) -> tuple[int, ...]:
        """Tokenize rendered text."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False).ids)


def as_dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Write messages as the reference library reads them."""
    return [
        {
            "role": message.role,
            "content": message.text,
            "reasoning_content": message.thinking,
            "tool_calls": [
                {
                    "type": "function",
                    "id": call.id,
                    "function": {"name": call.name, "arguments": dict(call.arguments)},
                }
                for call in message.tool_calls
            ]
            or None,
            "tool_call_id": message.tool_call_id,
        }
        for message in messages
    ]


def tools_as_dicts(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Write tools as the reference library reads them."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            },
        }
        for tool in tools
    ]
