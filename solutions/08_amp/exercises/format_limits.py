# %% [markdown]
# ### Exercise 8.1 · What survives the cast?
#
# predict · warm-up · 6 min · 1 point
#
# Here are five questions about two formats. `fp16(v)` means `torch.tensor(v).to(torch.float16)`, and `bf16(v)` the same
# with `torch.bfloat16`. The subtraction is done in bfloat16.
#
# **Contract**
#
# - Replace each `...` with the number that is really stored, written in full, or with True or False.
# - The check casts on your PyTorch and compares exactly; every right item earns a fifth of the point.
#
# <details><summary>Hint 1</summary>
#
# For each format: how many exponent bits (range) and how many fraction bits (spacing of neighbours at that size)?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# fp16 has 5 exponent bits and 10 fraction bits, bf16 8 and 7. How far apart are the neighbours of 2051 in fp16, and
# those of 259 in bf16? If a number is half-way between two neighbours, which of them is even?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# fp16: the spacing is 2 above 2048, and the smallest positive number is about 6e-8. bf16: the range of float32, but
# only 8 significant bits, so the spacing is 2 above 256, 1/128 just above 1 and 1/256 just below.
#
# </details>

# %% answer="format-limits"
### BEGIN SOLUTION
survivors = {
    "fp16(4e-8) == 0": False,
    "fp16(2051)": 2052.0,
    "bf16(259)": 260.0,
    "bf16(1e-8) == 0": False,
    "bf16(1) - 0.003": 0.99609375,
}
### END SOLUTION
### BEGIN GIVEN
# survivors = {
#     "fp16(4e-8) == 0": ...,
#     "fp16(2051)": ...,
#     "bf16(259)": ...,
#     "bf16(1e-8) == 0": ...,
#     "bf16(1) - 0.003": ...,
# }
### END GIVEN

# %% check="format-limits" points=1
"""Each item against a real cast; every right item earns its share."""
with check("format-limits") as test:
    test("every item is compared with what the cast gives")

    def cast(value, dtype):
        """The number that a format stores."""
        return torch.tensor(value).to(dtype).item()

    def in_words(text):
        """A number or True or False that was written as a string; anything else as it is."""
        if not isinstance(text, str):
            return text
        text = text.strip().removeprefix("math.")
        if text in ("True", "False"):
            return text == "True"
        with suppress(ValueError):
            return float(text)
        return text

    fp16_underflow = (
        "The smallest positive fp16 number is 2**-24, about 6e-8. 4e-8 is nearer to it than to 0; only what is at "
        "most half of it becomes 0. That is what loss scaling is for."
    )
    fp16_integers = (
        "fp16 has 11 significant bits: odd integers above 2048 do not exist. 2051 is half-way between 2050 and 2052, "
        "and is rounded to the neighbour whose last bit is 0."
    )
    bf16_range = "bf16 has the exponent of float32, so 1e-8 is within its range. That is why it needs no GradScaler."
    bf16_precision = (
        "bf16 has 8 significant bits, so the neighbours of 259 are 258 and 260. The cast rounds to the nearer "
        "neighbour, or to the even one if both are equally near."
    )
    one_step = (
        "Just below 1 bf16 moves in steps of 1/256, nearly 0.004. 0.003 is more than half a step, so it becomes a "
        "whole one, and an update of 0.001 would be lost entirely. This is why weights stay in float32."
    )
    seen = observe_value(survivors)
    if isinstance(seen.noted.result, dict):
        seen.noted.result.update({name: in_words(given) for name, given in seen.noted.result.items()})
    test.points = seen.predicts(
        {
            "fp16(4e-8) == 0": prediction(cast(4e-8, torch.float16) == 0, because=fp16_underflow),
            "fp16(2051)": prediction(cast(2051.0, torch.float16), because=fp16_integers),
            "bf16(259)": prediction(cast(259.0, torch.bfloat16), because=bf16_precision),
            "bf16(1e-8) == 0": prediction(cast(1e-8, torch.bfloat16) == 0, because=bf16_range),
            "bf16(1) - 0.003": prediction((torch.tensor(1.0).bfloat16() - 0.003).item(), because=one_step),
        },
        points=1,
    )
test.points
