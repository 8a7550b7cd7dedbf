"""A policy of one's own: between two steps of prompts, at least a burst of steps of decodes.

Prefill-first runs prompts whenever one can be admitted, so that decodes stall again and again while a queue of
prompts drains. Here a stall is as long, but the next one only comes ``BURST`` steps later.

    twofold compare sample --rate 80 --model llama-3-8b --device H100 --policy-file decode_burst.py \
        --deploy 4B,prefill-first --deploy 4B,policy=decode-burst
"""

import twofold
from twofold.scheduler.fill import take_decodes, take_prompts
from twofold.scheduler.state import Scheduler

BURST = 8


@twofold.policy("decode-burst")
def fill(s: Scheduler, r: int, k: int) -> int:
    """Fill step ``k`` of replica ``r``: whole prompts once decodes have had their burst, else decodes."""
    replica = s.replicas[r]
    if replica.decoding == 0 or replica.since_prefill >= BURST:
        take_prompts(s, r, k, True)
    if s.steps[k].items == 0:
        take_decodes(s, r, k)
    return 0
