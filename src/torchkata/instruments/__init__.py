"""What chapter 13 measures with, without a GPU and without a clock.

ledger       bytes alive after each operation
waits        which calls would make Python wait for a GPU
host         which tensors would lie on the CPU then
driver       a GPU's memory as the driver sees it
blocks       a caching allocator on top of it, told as rows of blocks
snapshot     a training step as torch.cuda.memory recorded it on a GPU
lanes        when Python queues, waits and when the GPU works
virtual_gpu  the operations of a step as such a list of calls
step_film    the kinds of tensors that are alive in a training step
products     FLOPs of matrix products
counted_gpt  a small GPT whose matrix products FlopCounterMode counts on every release
"""
