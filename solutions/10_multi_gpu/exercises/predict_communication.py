# %% [markdown]
# ### Exercise 10.9 · What a step waits for
#
# predict · solid · 20 min · 2 points
#
# A model with 160 million float32 parameters, 640 MB in 16 layers of equal size, is trained on 16 ranks in a ring. A
# link carries 20 GB/s, and the latency is 10 µs per message. How much is sent, how long does it take, and how much of
# that time does a step wait? There are ten numbers; let Python do the arithmetic.
#
# **Contract**
#
# - In a ring all-reduce of S bytes over n ranks, each rank sends 2 (n - 1) messages of S / n bytes, one after another.
#   A reduce-scatter or an all-gather has n - 1 of them. A message of b bytes takes b / bandwidth + latency.
# - DDP makes one transfer at a time. The next transfer starts when its bucket is full and the link is free. A bucket is
#   full when backward is done with its layers. The *exposed* time is the time from the end of backward until the last
#   transfer is done.
# - 1 MB is 10^6 bytes, 1 GB is 10^9. A number counts as right within 1%. Every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# How many messages does one ring all-reduce over 16 ranks have, and how large is each? When is the last bucket full?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# There are 30 messages of S / 16 bytes, each with its own latency. For the exposed time, write two columns with a line
# for each bucket: when it is full, and when the link is free again.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Go through the buckets in order. A bucket is full 8 ms per layer after the one before. Its transfer starts at the
# later of two times, when it is full and when the link is free, and takes 30 messages. The exposed time is the
# difference at the end. Under no_sync nothing is sent, and the last micro-batch sends everything.
#
# </details>

# %% answer="predict-communication"
### BEGIN SOLUTION
costs = {
    # an all-reduce of all gradients, 640 MB in one piece
    "bytes_ring": 1200,  # MB that each rank sends
    "bytes_more_ranks": 1260,  # the same with 64 ranks in place of 16
    "time": 60.3,  # ms that it takes on 16 ranks
    # other sizes, on 16 ranks
    "small": 0.3004,  # ms: an all-reduce of 4 kB
    "thousand": 360,  # ms: all-reduces of 1000 tensors of 640 kB, one after another
    # fully sharded: all-gather in forward, all-gather in backward, reduce-scatter
    "fsdp": 1800,  # MB that each rank sends in a step
    # DDP; backward works 8 ms on each layer, and a layer has 40 MB
    "hidden": 4.05,  # ms exposed, with buckets of 40 MB
    "one_bucket": 60.3,  # ms exposed, with one bucket of 640 MB
    "slow_link": 124.8,  # ms exposed, with buckets of 40 MB and a link of 5 GB/s
    # ms exposed in a step of 4 such micro-batches, slow link, no_sync but for the last
    "accumulate": 124.8,
}
### END SOLUTION
### BEGIN GIVEN
# costs = {
#     # an all-reduce of all gradients, 640 MB in one piece
#     "bytes_ring": ...,  # MB that each rank sends
#     "bytes_more_ranks": ...,  # the same with 64 ranks in place of 16
#     "time": ...,  # ms that it takes on 16 ranks
#     # other sizes, on 16 ranks
#     "small": ...,  # ms: an all-reduce of 4 kB
#     "thousand": ...,  # ms: all-reduces of 1000 tensors of 640 kB, one after another
#     # fully sharded: all-gather in forward, all-gather in backward, reduce-scatter
#     "fsdp": ...,  # MB that each rank sends in a step
#     # DDP; backward works 8 ms on each layer, and a layer has 40 MB
#     "hidden": ...,  # ms exposed, with buckets of 40 MB
#     "one_bucket": ...,  # ms exposed, with one bucket of 640 MB
#     "slow_link": ...,  # ms exposed, with buckets of 40 MB and a link of 5 GB/s
#     # ms exposed in a step of 4 such micro-batches, slow link, no_sync but for the last
#     "accumulate": ...,
# }
### END GIVEN

# %% check="predict-communication" points=2
"""Each number is compared with a ring and a backward pass, simulated message by message."""
with check("predict-communication") as test:
    test("every item is compared with what a played ring and a played backward give")

    def sends(megabytes, ranks, rounds=2):
        """The bytes of the messages that each rank sends: a round to add up, a round to hand out."""
        messages = []
        for _ in range(rounds):
            for _ in range(ranks - 1):
                messages.append(megabytes * 1e6 / ranks)
        return messages

    def lasts(messages, gb_per_s=20):
        """The ms that messages take, one after another."""
        return sum(1e3 * (size / (gb_per_s * 1e9) + 10e-6) for size in messages)

    def exposed(buckets, gb_per_s=20, micro_batches=1):
        """The ms between the end of backward and the last transfer's, for the layers in each bucket."""
        now = free = 0.0
        for number in range(micro_batches):
            for layers in buckets:
                now += 8.0 * layers
                if number == micro_batches - 1:
                    free = max(free, now) + lasts(sends(40 * layers, 16), gb_per_s)
        return free - now

    seen = observe_value(costs)
    given = seen.value if isinstance(seen.value, dict) else {}

    def near(said, number):
        """Whether this is the number, within 1%."""
        said = said.item() if isinstance(said, Tensor) and said.numel() == 1 else said
        return type(said) in (int, float) and abs(said) < 1e30 and math.isclose(said, number, rel_tol=0.01)

    def item(name, truth, because, *mistakes):
        """A prediction that is right within 1%; known wrong numbers are met within 1% too."""
        said = given.get(name, ...)
        right = near(said, truth)
        in_mb = name in ("bytes_ring", "bytes_more_ranks", "fsdp")
        factors = (1e6, 1e3, 1e-3, 1 / 1.048576) if in_mb else (1e3, 1e-3)
        units = (
            "The number is right, but its unit is wrong. Give MB of 10^6 bytes."
            if in_mb
            else "The number is right, but not in ms."
        )
        known = [(number, sentence) for wrong, sentence in mistakes for number in wrong]
        known += [(truth * factor, units) for factor in factors]
        close = [(said, sentence) for number, sentence in known if near(said, number)]
        return prediction(said if right else truth, *([] if right else close), because=because)

    ring = "30 messages of S / 16 bytes: a round of 15 to add up, another of 15 to hand the sums out."
    twice = (
        "A ring all-reduce has two rounds, 15 messages to add up and 15 to distribute, so each rank sends almost 2 S."
    )
    chunks = "Each message is S / 16, and there are 30 of them, not 32, which is a little less than 2 S."
    half = "That is only one round, the reduce-scatter. The sums must also be distributed."
    nobody = "In a ring no rank sends the whole tensor to all others. Each message is a chunk of S / n."
    tends = (
        "With more ranks there are more messages, and each is smaller: 126 of S / 64. That is hardly more than with 16."
    )
    latency = "30 messages cost 30 latencies, and so much time passes however small they are."
    one_message = "An all-reduce over 16 ranks is 30 messages one after another, each with its latency."
    both = "Each message takes its latency plus the time of its bytes."
    price = "There are three rounds of 15 messages, and an all-reduce has two, so half as much again is sent."
    overlapping = "Buckets are sent while backward runs. Only what is not done when backward ends is exposed."
    last = "The last bucket is full only when backward ends, so nothing hides it."
    alone = "A single bucket is full only when backward ends, so all of it is exposed."
    backlog = "A transfer takes longer than a layer, so the queue grows, and everything still in it is exposed."
    start = "The first bucket is sent only when backward is done with its layer, after 8 ms."
    silent = (
        "Three micro-batches send nothing, and the last one sends the whole gradient, as a step without no_sync does."
    )
    per_step = "Each step sends the whole gradient, not a quarter. The wait is a quarter only per *sample*."

    test.points = seen.predicts(
        {
            "bytes_ring": item(
                "bytes_ring",
                sum(sends(640, 16)) / 1e6,
                ring,
                ([640], twice),
                ([1280], chunks),
                ([9600, 10240, 19200], nobody),
                ([600], half),
                ([40], "That is one message; there are 30."),
            ),
            "bytes_more_ranks": item(
                "bytes_more_ranks",
                sum(sends(640, 64)) / 1e6,
                tends,
                ([1200, 1280, 2560, 4800, 5040, 5120, 300, 320], tends),
                ([640], "A ring all-reduce has two rounds, so each rank sends almost 2 S."),
                ([630], half),
                ([40320, 40960, 80640], nobody),
            ),
            "time": item(
                "time",
                lasts(sends(640, 16)),
                ring + " Each takes its bytes / bandwidth + latency.",
                ([32], twice),
                ([64], chunks),
                ([480, 512, 960], nobody),
                ([30.15], half),
            ),
            "small": item(
                "small",
                lasts(sends(0.004, 16)),
                latency,
                ([0.0002, 0.0004, 0.000375], latency),
                ([0.01, 0.0102, 0.0104], one_message),
                ([0.15], half),
                ([0.16, 0.32], "A ring over 16 ranks has two rounds of 15 messages."),
            ),
            "thousand": item(
                "thousand",
                1000 * lasts(sends(0.64, 16)),
                both + " There are 30,000 of them.",
                ([60], latency),
                ([70], one_message),
                ([300], both),
                ([180], half),
                ([0.36], "0.36 are the ms of one of the thousand, or the seconds of all: ms of all are asked."),
            ),
            "fsdp": item(
                "fsdp",
                sum(sends(640, 16, rounds=3)) / 1e6,
                price,
                ([1200], price),
                ([3600, 3840, 2400], "An all-gather and a reduce-scatter are one round each, half of an all-reduce."),
                ([1920], "A round has 15 messages of S / 16, a little less than S."),
                ([600], "That is one of the three rounds."),
                ([640, 1280], price),
            ),
            "hidden": item(
                "hidden",
                exposed([1] * 16),
                overlapping + " " + last,
                ([64.8, 60.3], overlapping),
                ([0], last),
                ([3.75], one_message),
            ),
            "one_bucket": item("one_bucket", exposed([16]), alone, ([0, 4.05, 3.75], alone)),
            "slow_link": item(
                "slow_link",
                exposed([1] * 16, 5),
                backlog,
                ([0, 4.05, 15.3, 15, 16.2], backlog),
                ([244.8, 240, 240.3], overlapping),
                ([116.8], start),
                ([120], one_message),
            ),
            "accumulate": item(
                "accumulate",
                exposed([1] * 16, 5, micro_batches=4),
                silent,
                ([0], "The last micro-batch still sends everything."),
                ([31.2, 3.825], per_step),
                ([499.2], silent),
                ([15.3], backlog),
            ),
        },
        points=2,
    )
test.points
