"""Stands in for llama-bench: the same command line and JSON; a prompt token takes 1 ms and an answer's 20."""

import argparse
import json
import os
import sys

PROMPT_NANOSECONDS = 1_000_000
ANSWER_NANOSECONDS = 20_000_000


def main() -> None:
    """Read llama-bench's command line, and tell what it would have measured."""
    parser = argparse.ArgumentParser()
    for option in ("-m", "-o"):
        parser.add_argument(option, required=True)
    for option in ("-t", "-r", "-n"):
        parser.add_argument(option, type=int, required=True)
    parser.add_argument("-p", required=True)
    parser.add_argument("-d", type=int, default=0)
    options = parser.parse_args()
    if {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        raise SystemExit("error: the threads are told to sleep")
    if options.m.endswith("damaged.gguf"):
        raise SystemExit(f"error: failed to load model '{options.m}'")
    if options.m.endswith("old.gguf"):
        sys.stdout.write("| model | size | t/s |\n")
        return
    prompts = [int(number) for number in options.p.split(",")]
    nanoseconds = [number * PROMPT_NANOSECONDS for number in prompts if number]
    if options.n:
        nanoseconds.append(options.n * ANSWER_NANOSECONDS)
    tests = [{"avg_ns": own, "n_depth": options.d} for own in nanoseconds]
    sys.stdout.write(json.dumps(tests))


if __name__ == "__main__":
    main()
