# %% [markdown]
# ### Exercise 8.1 · What survives the cast?
#
# predict · warm-up · 10 min · 2 points
#
# Here are ten questions about four formats. `fp16(v)` means `torch.tensor(v).to(torch.float16)`; `bf16`, `e5m2` and
# `e4m3` mean the same with `torch.bfloat16`, `torch.float8_e5m2` and `torch.float8_e4m3fn`. The two subtractions are
# done in the format itself, as in `bf16(1) - 0.003`.
#
# **Contract**
#
# - Replace each `...` with the number that is really stored, written in full (`math.inf` also counts as a number), or
#   with True or False.
# - The check casts on your PyTorch and compares exactly; every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# For each format: how many exponent bits (range) and how many fraction bits (spacing of neighbours at that size)?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# fp16 has 5 exponent bits and 10 fraction bits, bf16 8 and 7, e5m2 5 and 2; section 8.1 has a table of their largest
# numbers. How far apart are the neighbours of 2051 in fp16, and those of 259 in bf16? If a number is half-way between
# two neighbours, which of them is even?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# fp16: the largest number is 65504, the spacing is 2 above 2048, the smallest positive number is about 6e-8. bf16: the
# range of float32, but only 8 significant bits, so the spacing is 2 above 256, 1/128 just above 1 and 1/256 just below.
# e5m2 has inf (its largest number is 57344); e4m3 has 3 fraction bits, so the spacing is 2 above 16.
#
# </details>

# %% answer="format-limits"
### BEGIN SOLUTION
survivors = {
    "fp16(70000)": math.inf,
    "fp16(4e-8) == 0": False,
    "fp16(2051)": 2052.0,
    "bf16(70000)": 70144.0,
    "bf16(259)": 260.0,
    "bf16(1e-8) == 0": False,
    "bf16(1) - 0.003": 0.99609375,
    "fp16(1) - 0.001 < 1": True,
    "e5m2(61440)": math.inf,
    "e4m3(17)": 16.0,
}
### END SOLUTION
### BEGIN GIVEN
# survivors = {
#     "fp16(70000)": ...,
#     "fp16(4e-8) == 0": ...,
#     "fp16(2051)": ...,
#     "bf16(70000)": ...,
#     "bf16(259)": ...,
#     "bf16(1e-8) == 0": ...,
#     "bf16(1) - 0.003": ...,
#     "fp16(1) - 0.001 < 1": ...,
#     "e5m2(61440)": ...,
#     "e4m3(17)": ...,
# }
### END GIVEN

# %% check="format-limits" points=2
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

    bf16_one, fp16_one = torch.tensor(1.0, dtype=torch.bfloat16), torch.tensor(1.0, dtype=torch.float16)
    fp16_range = "fp16 ends at 65504; above (from 65520 on, after rounding) it is inf."
    fp16_underflow = (
        "The smallest positive fp16 number is 2**-24, about 6e-8. 4e-8 is nearer to it than to 0; only what is below "
        "half of it becomes 0. That is what loss scaling is for."
    )
    fp16_integers = "fp16 has 11 significant bits: odd integers above 2048 do not exist."
    bf16_range = (
        "bf16 has the exponent of float32: neither 70000 nor 1e-8 leaves its range. That is why it needs no GradScaler."
    )
    bf16_precision = (
        "bf16 has 8 significant bits: neighbours of 259 are 258 and 260, near 70000 they are 512 apart. The cast "
        "rounds to the nearer neighbour, or to the even one if both are equally near."
    )
    one_step = (
        "Just below 1 bf16 moves in steps of 1/256, nearly 0.004. 0.003 is more than half a step, so it becomes a "
        "whole one, and an update of 0.001 would be lost entirely. This is why weights stay in float32."
    )
    e5m2_inf = "e5m2 ends at 57344, and after it comes inf. 61440 is half-way to the next number, 65536, and rounds up."
    e4m3_spacing = (
        "e4m3 has 3 fraction bits, so above 16 its numbers are 2 apart. 17 is half-way between 16 and 18, and is "
        "rounded to the neighbour whose last bit is 0."
    )
    seen = observe_value(survivors)
    if isinstance(seen.noted.result, dict):
        seen.noted.result.update({name: in_words(given) for name, given in seen.noted.result.items()})
    test.points = seen.predicts(
        {
            "fp16(70000)": prediction(cast(70000.0, torch.float16), because=fp16_range),
            "fp16(4e-8) == 0": prediction(cast(4e-8, torch.float16) == 0, because=fp16_underflow),
            "fp16(2051)": prediction(
                cast(2051.0, torch.float16),
                because=fp16_integers
                + " 2051 is half-way between 2050 and 2052, and is rounded to the neighbour whose last bit is 0.",
            ),
            "bf16(70000)": prediction(cast(70000.0, torch.bfloat16), (math.inf, bf16_range), because=bf16_precision),
            "bf16(259)": prediction(cast(259.0, torch.bfloat16), because=bf16_precision),
            "bf16(1e-8) == 0": prediction(cast(1e-8, torch.bfloat16) == 0, because=bf16_range),
            "bf16(1) - 0.003": prediction((bf16_one - 0.003).item(), because=one_step),
            "fp16(1) - 0.001 < 1": prediction(
                (fp16_one - 0.001).item() < 1,
                because="fp16 just below 1 has spacing 1/2048, so 0.001 does survive (rounded).",
            ),
            "e5m2(61440)": prediction(cast(61440.0, torch.float8_e5m2), because=e5m2_inf),
            "e4m3(17)": prediction(cast(17.0, torch.float8_e4m3fn), because=e4m3_spacing),
        },
        points=2,
    )
test.points
