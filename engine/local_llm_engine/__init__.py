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

# OpenMP reads this once, when torch is first imported. Its threads would otherwise spin while they wait
# for each other, and starve everything else on a busy machine: Home Assistant's loop, and themselves.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
