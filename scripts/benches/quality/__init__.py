"""The bench of quality: what quantizing costs, format by format.

`answers` has the plain model answer, `peer` makes what our own formats are compared with, `bench` has every format read
the answers and tells.
"""
