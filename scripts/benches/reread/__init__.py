"""The bench of re-read tokens: a home's prompts in the order in which caches are known to lose them.

`scenario` is the story, `house` changes and asks a real Home Assistant, `engine` and `peer` read, `limits`
and `report` judge and tell.
"""
