"""Nano, the built-in model: its houses and sentences, its tokenizer, its training, and its export.

`houses` and `sentences` make what is said, `prompts` lays it out as the integration does, `chats` makes tokens of it,
`network` and `training` learn it, `export` writes what the engine loads.
"""
