"""Tests of the fuzzers, and short runs of them."""
