"""Stands in for llama-server: the same command line and answers, tokens are words, and one prompt is remembered."""

import argparse
import json
import os
from typing import Any

from aiohttp import web

_CHECKPOINT_WORDS = 4


class FakeServer:
    """Loads for one look at its health, then answers; never lets more than all but 4 words be reused."""

    def __init__(self, *, tells_reuse: bool) -> None:
        """`tells_reuse` False is an old version, which does not tell what it reused."""
        self._tells_reuse = tells_reuse
        self._is_loading = True
        self._words: list[str] = []

    async def health(self, _: web.Request) -> web.Response:
        """Tell whether the model is loaded."""
        status = 503 if self._is_loading else 200
        self._is_loading = False
        return web.json_response({}, status=status)

    async def complete(self, request: web.Request) -> web.Response:
        """Read a prompt and answer with one word."""
        body = await request.json()
        if body["messages"][-1]["content"] == "refuse":
            return web.json_response({"error": "as you wish"}, status=400)
        words = _rendered(body)
        common = 0
        while common < min(len(words), len(self._words)) - _CHECKPOINT_WORDS:
            if words[common] != self._words[common]:
                break
            common += 1
        self._words = words
        timings = {"prompt_n": len(words) - common}
        if self._tells_reuse:
            timings["cache_n"] = common
        return web.json_response({"choices": [], "timings": timings})


def _rendered(body: dict[str, Any]) -> list[str]:
    """Write tools before the system text, as templates do."""
    return json.dumps([body.get("tools"), body["messages"]]).split()


def main() -> None:
    """Read llama-server's command line, and serve."""
    parser = argparse.ArgumentParser()
    for option in ("-m", "--host", "-c", "-np", "-t"):
        parser.add_argument(option, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--jinja", action="store_true", required=True)
    options = parser.parse_args()
    if {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        raise SystemExit("error: the threads are told to sleep")
    if options.m.endswith("damaged.gguf"):
        raise SystemExit(f"error loading model {options.m}")
    server = FakeServer(tells_reuse=not options.m.endswith("old.gguf"))
    app = web.Application(client_max_size=2**26)
    app.router.add_get("/health", server.health)
    app.router.add_post("/v1/chat/completions", server.complete)
    web.run_app(app, host=options.host, port=options.port, print=None)


if __name__ == "__main__":
    main()
