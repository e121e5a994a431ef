"""The demo: a real Home Assistant with a demo house that Local LLM answers for.

`core` starts and stops Home Assistant, `client` speaks to it as any program would, `household` moves
everybody in, `questions` and `once` ask and judge.
"""
