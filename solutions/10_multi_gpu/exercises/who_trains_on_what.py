# %% [markdown]
# ### Exercise 10.1 · Who trains on what?
#
# predict · warm-up · 10 min · 1 point
#
# Answer ten questions about two ranks without running anything.
#
#     # "rank 0", "rank 1": list(sampler) on each rank
#     # "rank 1, drop_last": list(sampler) on rank 1 with drop_last=True
#     sampler = DistributedSampler(range(10, 15), num_replicas=2, rank=rank, shuffle=False)
#
#     # "orders": iterated three times, how many different orders?
#     sampler = DistributedSampler(range(64), num_replicas=2, rank=0)
#     sampler.set_epoch(7)                 # once, before the three
#
#     # "all_reduce": the value of t on rank 0 afterwards
#     t = torch.tensor([0.75])
#     dist.all_reduce(t)
#     dist.all_reduce(t)
#
#     # "weights equal": are they, on both ranks, after these lines?
#     model = nn.Linear(3, 1, bias=False)
#     if rank == 1:
#         model.load_state_dict(checkpoint)
#     ddp = DistributedDataParallel(model)
#
#     # "grad": each entry of .grad afterwards, where the entries of the local gradient are 1.0 on
#     # rank 0, a mean over 2 rows, and 2.0 on rank 1, a mean over 6 rows
#     loss.backward()
#
#     # "rows": of the result on rank 0, where x has the shape (4, 3) on rank 0 and (6, 3) on rank 1
#     ddp(x)
#
#     # "key": the first key
#     ddp.state_dict()
#
#     # "global batch": samples that go into one step, on both ranks together, if both ranks call
#     # optimizer.step() after every second backward
#     DataLoader(dataset, batch_size=16)
#
# **Contract**
#
# - Replace each `...` with a list of numbers, a number, True or False, or (for the key) a string.
# - The check runs two processes and compares. Every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# What does DistributedSampler do so that both ranks get the same number of samples? Does all_reduce average, and where
# does it write? Does DDP cut the batch?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Deal the indices 0 to 4 to two columns, like cards. The last row is one short. What fills it, and what does drop_last
# do with it? For each other question, say who does the work: the sampler, all_reduce, DDP when it is built, DDP in
# backward, or nobody.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The shares are interleaved, and samples from the start fill them up (or the tail is dropped). all_reduce sums in
# place, but DDP averages gradients. When DDP is built it broadcasts rank 0's weights, and it is a module with one
# child, `module`. Nothing splits the batch for you. The sampler's order depends only on its seed and on the epoch that
# it was told last.
#
# </details>

# %% answer="who-trains-on-what"
### BEGIN SOLUTION
answers = {
    "rank 0": [0, 2, 4],
    "rank 1": [1, 3, 0],
    "rank 1, drop_last": [1, 3],
    "orders": 1,
    "all_reduce": 3.0,
    "weights equal": True,
    "grad": 1.5,
    "rows": 4,
    "key": "module.weight",
    "global batch": 64,
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "rank 0": ...,
#     "rank 1": ...,
#     "rank 1, drop_last": ...,
#     "orders": ...,
#     "all_reduce": ...,
#     "weights equal": ...,
#     "grad": ...,
#     "rows": ...,
#     "key": ...,
#     "global batch": ...,
# }
### END GIVEN

# %% check="who-trains-on-what" points=1
"""Each prediction is compared with what two processes do."""
with check("who-trains-on-what") as test:
    test("every item is compared with samplers and two processes")

    def shares(**options):
        """The indices of each of two ranks for 5 samples."""
        samplers = [DistributedSampler(range(10, 15), num_replicas=2, rank=rank, **options) for rank in range(2)]
        return [list(sampler) for sampler in samplers]

    def live(rank, world):
        """What one of two ranks sees."""
        t = torch.tensor([0.75])
        dist.all_reduce(t)
        dist.all_reduce(t)
        model = nn.Linear(3, 1, bias=False)
        if rank == 1:
            model.load_state_dict({"weight": torch.ones(1, 3)})
        ddp = DistributedDataParallel(model)
        (ddp(torch.ones(2 + 4 * rank, 3)) * (rank + 1)).mean().backward()
        (weight,) = ddp.parameters()
        batch = torch.tensor(2 * len(next(iter(DataLoader(range(64), batch_size=16)))))
        dist.all_reduce(batch)
        return {
            "sum": t.item(),
            "weight": weight.detach(),
            "grad": weight.grad[0, 0].item(),
            "rows": len(ddp(torch.ones(4 + 2 * rank, 3))),
            "key": next(iter(ddp.state_dict())),
            "batch": batch.item(),
        }

    first, second = run_on_ranks(live)
    plain, dropped = shares(shuffle=False), shares(shuffle=False, drop_last=True)
    shuffled = DistributedSampler(range(64), num_replicas=2, rank=0)
    shuffled.set_epoch(7)
    interleaved = "The shares are interleaved (0, 2, 4 and 1, 3, …), not contiguous blocks."
    repeated = "5 samples do not divide by 2: one is repeated so that both ranks take equally many steps."
    indices = "A sampler yields indices, 0 to 4, and not samples: the DataLoader looks the samples up."
    averaged = "DDP averages the local gradients, however many rows are behind each of them: (1 + 2) / 2."
    not_split = "DDP does not split the input (DataParallel does). Each rank gets back the rows it passed."
    test.points = observe_value(answers).predicts(
        {
            "rank 0": prediction(plain[0], ([10, 12, 14], indices), because=interleaved),
            "rank 1": prediction(plain[1], ([1, 3], repeated), ([3, 4], interleaved), because=repeated),
            "rank 1, drop_last": prediction(
                dropped[1], because="drop_last cuts the tail instead of repeating samples."
            ),
            "orders": prediction(
                len({tuple(shuffled) for _ in range(3)}),
                because="All three passes use the same seed and the same epoch, so the order is the same. Call "
                "set_epoch before each of them.",
            ),
            "all_reduce": prediction(
                first["sum"],
                because="all_reduce sums by default, and in place, so each of the two calls doubles t. Only DDP "
                "averages, and only gradients.",
            ),
            "weights equal": prediction(
                torch.equal(first["weight"], second["weight"]),
                because="DDP broadcasts rank 0's parameters when it is built, so what rank 1 has loaded is gone.",
            ),
            "grad": prediction(first["grad"], because=averaged),
            "rows": prediction(first["rows"], because=not_split),
            "key": prediction(
                first["key"],
                because="The wrapper is a module with one child called `module`, so keys start with `module.`.",
            ),
            "global batch": prediction(
                first["batch"],
                because="Both ranks accumulate two batches of 16 rows each, and nothing splits a batch: 2 · 2 · 16.",
            ),
        },
        points=1,
    )
test.points
