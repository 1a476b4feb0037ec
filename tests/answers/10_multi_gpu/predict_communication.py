import torch

right = {
    "bytes_ring": 1200,
    "bytes_more_ranks": 1260,
    "time": 60.3,
    "small": 0.300375,
    "thousand": 360,
    "fsdp": 1800,
    "hidden": 4.05,
    "one_bucket": 60.3,
    "slow_link": 124.8,
    "accumulate": 124.8,
}

# corners: none


# %% right: computed in the notebook, as floats
def transfer(size, ranks=16, bandwidth=20e9, rounds=2):
    return 1e3 * rounds * (ranks - 1) * (size / ranks / bandwidth + 10e-6)


def waits(buckets, bandwidth=20e9):
    full = free = 0.0
    for size in buckets:
        full += 8 * size / 40e6
        free = max(full, free) + transfer(size, bandwidth=bandwidth)
    return free - full


costs = {
    "bytes_ring": 2 * 15 * 640 / 16,
    "bytes_more_ranks": 2 * 63 * 640 / 64,
    "time": transfer(640e6),
    "small": transfer(4e3),
    "thousand": 1000 * transfer(640e3),
    "fsdp": 3 * 15 * 640 / 16,
    "hidden": waits([40e6] * 16),
    "one_bucket": waits([640e6]),
    "slow_link": waits([40e6] * 16, 5e9),
    "accumulate": waits([40e6] * 16, 5e9),
}


# %% right: rounded, as tensors
costs = {key: torch.tensor(value) for key, value in right.items()} | {"small": 0.3, "slow_link": 125, "time": 60}


# %% right: whole numbers where they are near enough
costs = right | {"slow_link": 125, "accumulate": 125, "hidden": 4.04, "thousand": torch.tensor([[360.0]])}


# %% wrong: sends the tensor once
# says: A ring all-reduce has two rounds, 15 messages to add up and 15 to distribute, so each rank sends almost
# earns: 1.8 of 2
costs = right | {"bytes_ring": 640}


# %% wrong: sends the tensor twice
# says: Each message is S / 16, and there are 30 of them, not 32, which is a little less than 2 S.
# earns: 1.8 of 2
costs = right | {"bytes_ring": 1280.0}


# %% wrong: sends the whole tensor to everyone
# says: In a ring no rank sends the whole tensor to all others. Each message is a chunk of S / n.
# earns: 1.8 of 2
# lesson
costs = right | {"bytes_ring": 9600}


# %% wrong: one round only
# says: That is only one round, the reduce-scatter. The sums must also be distributed.
# earns: 1.8 of 2
costs = right | {"bytes_ring": 600}


# %% wrong: grows with the number of ranks
# says: With more ranks there are more messages, and each is smaller
# earns: 1.8 of 2
# lesson
costs = right | {"bytes_more_ranks": 5040}


# %% wrong: the same as with 16 ranks
# says: With more ranks there are more messages, and each is smaller
# earns: 1.8 of 2
costs = right | {"bytes_more_ranks": 1200}


# %% wrong: the bytes of one tensor in the time
# says: A ring all-reduce has two rounds
# earns: 1.8 of 2
costs = right | {"time": 32.0}


# %% wrong: the bytes of two tensors in the time
# says: Each message is S / 16, and there are 30 of them, not 32, which is a little less than 2 S.
# earns: 1.8 of 2
costs = right | {"time": 64.0}


# %% wrong: no latency for a small one
# says: 30 messages cost 30 latencies
# earns: 1.8 of 2
# lesson
costs = right | {"small": 0.000375}


# %% wrong: one latency for a small one
# says: An all-reduce over 16 ranks is 30 messages one after another, each with its latency.
# earns: 1.8 of 2
costs = right | {"small": 0.01}


# %% wrong: a thousand tensors cost as much as one
# says: 30 messages cost 30 latencies
# earns: 1.8 of 2
# lesson
costs = right | {"thousand": 60.3}


# %% wrong: latencies only
# says: Each message takes its latency plus the time of its bytes.
# earns: 1.8 of 2
costs = right | {"thousand": 300}


# %% wrong: one of the thousand
# says: 0.36 are the ms of one of the thousand, or the seconds of all
# earns: 1.8 of 2
costs = right | {"thousand": 0.36}


# %% wrong: FSDP sends as much as DDP
# says: There are three rounds of 15 messages, and an all-reduce has two, so half as much again is sent.
# earns: 1.8 of 2
# lesson
costs = right | {"fsdp": 1200}


# %% wrong: FSDP sends three all-reduces
# says: An all-gather and a reduce-scatter are one round each, half of an all-reduce.
# earns: 1.8 of 2
costs = right | {"fsdp": 3600}


# %% wrong: three whole tensors
# says: A round has 15 messages of S / 16, a little less than S.
# earns: 1.8 of 2
costs = right | {"fsdp": 1920}


# %% wrong: nothing overlaps
# says: Buckets are sent while backward runs. Only what is not done when backward ends is exposed.
# earns: 1.6 of 2
# lesson
costs = right | {"hidden": 64.8, "slow_link": 244.8}


# %% wrong: everything is hidden
# says: The last bucket is full only when backward ends, so nothing hides it.
# earns: 1.8 of 2
# lesson
costs = right | {"hidden": 0}


# %% wrong: one large bucket is hidden too
# says: A single bucket is full only when backward ends, so all of it is exposed.
# earns: 1.8 of 2
# lesson
costs = right | {"one_bucket": 0.0}


# %% wrong: the last bucket alone on a slow link
# says: A transfer takes longer than a layer, so the queue grows, and everything still in it is exposed.
# earns: 1.8 of 2
# lesson
costs = right | {"slow_link": 15.3}


# %% wrong: the link is busy from the start
# says: The first bucket is sent only when backward is done with its layer, after 8 ms.
# earns: 1.8 of 2
costs = right | {"slow_link": 116.8}


# %% wrong: no latencies on the slow link
# says: An all-reduce over 16 ranks is 30 messages one after another, each with its latency.
# earns: 1.8 of 2
costs = right | {"slow_link": 120}


# %% wrong: no_sync hides everything
# says: The last micro-batch still sends everything.
# earns: 1.8 of 2
costs = right | {"accumulate": 0.0}


# %% wrong: a quarter of the gradient
# says: Each step sends the whole gradient, not a quarter. The wait is a quarter only per *sample*.
# earns: 1.8 of 2
# lesson
costs = right | {"accumulate": 31.2}


# %% wrong: four times the gradient
# says: Three micro-batches send nothing, and the last one sends the whole gradient
# earns: 1.8 of 2
costs = right | {"accumulate": 499.2}


# %% wrong: bytes in place of MB, seconds in place of ms
# says: The number is right, but its unit is wrong. Give MB of 10^6 bytes.
# earns: 1.6 of 2
costs = right | {"bytes_ring": 1.2e9, "time": 0.0603}


# %% wrong: MiB
# says: The number is right, but its unit is wrong. Give MB of 10^6 bytes.
# earns: 1.8 of 2
costs = right | {"fsdp": 1716.6}


# %% wrong: two percent off
# says: 30 messages of S / 16 bytes: a round of 15 to add up, another of 15 to hand the sums out.
# earns: 1.8 of 2
costs = right | {"time": 61.5}


# %% wrong: words and truth values
# says: Buckets are sent while backward runs. Only what is not done when backward ends is exposed.
# earns: 1.6 of 2
costs = right | {"hidden": "4.05", "one_bucket": True}


# %% wrong: items left open
# says: There is no prediction yet
# earns: 1.4 of 2
costs = {key: value for key, value in right.items() if key != "fsdp"} | {"hidden": ..., "slow_link": ...}


# %% wrong: no numbers, and too large ones
# says: Buckets are sent while backward runs. Only what is not done when backward ends is exposed.
# earns: 1.2 of 2
costs = right | {"hidden": float("nan"), "time": 10**400, "small": [0.3], "slow_link": float("inf")}

# %% wrong: the time in seconds
# says: The number is right, but not in ms.
# earns: 1.8 of 2
costs = right | {"time": 0.0603}

# %% wrong: the bytes of one message
# says: That is one message; there are 30.
# earns: 1.8 of 2
costs = right | {"bytes_ring": 40}

# %% wrong: twice the time for two rounds of two
# says: Each takes its bytes / bandwidth + latency.
# earns: 1.8 of 2
costs = right | {"time": 120.6}

# %% wrong: a round of 16 messages
# says: A ring over 16 ranks has two rounds of 15 messages.
# earns: 1.8 of 2
costs = right | {"small": 0.16}

# %% wrong: a thousand tensors take a thousand latencies and no more
# says: There are 30,000 of them.
# earns: 1.8 of 2
costs = right | {"thousand": 10}

# %% wrong: one round of FSDP's three
# says: That is one of the three rounds.
# earns: 1.8 of 2
costs = right | {"fsdp": 600}
