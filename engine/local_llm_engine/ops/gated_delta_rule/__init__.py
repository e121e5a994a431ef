"""The gated delta rule (Gated Delta Networks, arXiv:2412.06464, equation 10) in three forms with one signature.

    output = form(query, key, value, decay, beta, state)

- `query`, `key`: [T, HK, K], as the convolution gives them; the rule itself brings both to unit length
  and scales the query by K ** -0.5.
- `value`: [T, HV, V]. HV is a multiple of HK; value heads h * HV / HK and following read key head h.
- `decay`: [T, HV], float32, in log space: the memory is multiplied by exp(decay), so decay <= 0.
- `beta`: [T, HV], float32, the strength of the writing, in 0 .. 1.
- `state`: [HV, K, V], float32, the memory before the first token; it becomes that after the last. This is the one
  layout of the memory everywhere.
- `output`: [T, HV, V], in `value`'s dtype.

All three compute in float32. Knows nothing of layers, weights or where states are kept.
"""

from .chunked import gated_delta_rule_chunked
from .recurrent import gated_delta_rule_recurrent
from .reference import gated_delta_rule_reference

__all__ = [
    "gated_delta_rule_chunked",
    "gated_delta_rule_recurrent",
    "gated_delta_rule_reference",
]
