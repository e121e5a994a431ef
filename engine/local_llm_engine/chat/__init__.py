"""From messages to token ids with breakpoints, and from token ids back to deltas; no torch here.

ChatFormat.load(folder)        template, tokenizer and end tokens of one model
.prepare(request) -> Prompt    conversation -> template -> control_text -> tokenizer -> segments
.guide(request)                what the answer is held to: constraints -> grammar (tool_call_grammar, grammar_terms) -> guide
.decoder(request)              detokenizer -> output_parser (markup_scanner, tool_call_xml, tool_call_json)
"""

from .chat_format import AnswerDecoder, ChatFormat

__all__ = ["AnswerDecoder", "ChatFormat"]
