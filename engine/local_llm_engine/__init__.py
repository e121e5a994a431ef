"""An inference engine for a home's voice assistant: only what differs from the last prompt is read again.

The way of a request:

    engine = Engine.load(folder, EngineConfig(...))           service    the one door
    async for delta in engine.generate(ChatRequest(...))
        messages -> rendered text, segments, token ids        chat       no torch
        a Sequence waits for its turn, the voice first        runtime    scheduler, loop
        the deepest checkpoint of the prompt is restored      cache      prompt tree, RAM, disk
        prefill in stretches that end at checkpoints          runtime    runner; models, ops, weights
        decode one token at a time                            runtime    sampler; what a guide of the chat room allows
        token ids -> content, thinking, tool calls            chat
        one CallRecord                                        cache      records

Imports go down only: service, chat | runtime, models, cache | weights, ops, config | types, prompts | sampling, errors.
`from local_llm_engine.service import Engine` imports torch; everything in `types`, `prompts`, `sampling`, `errors` and
`config` comes without it.
"""

import os

# OpenMP reads these once, when torch is first imported. Its threads would otherwise spin for milliseconds while they
# wait for each other, and starve everything else on a busy machine: Home Assistant's loop, and themselves. Not to spin
# at all is no answer either: to fall asleep and be woken takes longer than many of a model's operations, a third of
# a decode step in all. So they spin for some 30 microseconds. Whoever has chosen a policy keeps it.
# The policy itself counts only where more such threads are alive than there are processors, as when a second engine, or
# a thread that converted weights, still has its own: "active" is for 10 microseconds then, "passive" not at all.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "ACTIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
