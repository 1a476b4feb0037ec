# %% [markdown]
# ### Exercise 1.4 · Ten questions about labels, copies and small floats
#
# predict · warm-up · 8 min · 2 points
#
# Device labels, moves that move nothing, numbers that don't survive 16 bits: each of these ten lines is a bug that
# somebody has had to find. Replace each `...` from memory, before you run anything.
#
# **Contract**
#
# - Each item asks for the value of one expression. If the comment is a question, answer True or False.
# - You may write a dtype as `"int64"` or `torch.int64`, and infinity as `math.inf`.
# - The check runs every snippet on your machine and compares the results. Every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# Which of these expressions allocates memory somewhere, and which only builds a small label object?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A device object is (type, index or None), compared field by field. `.to` never changes a tensor in place, but it does
# change a module. bfloat16 keeps 8 significant bits (7 of them stored), so its step doubles from one power of two to
# the next; float16 ends at 65504.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Four items are about labels, so compare type and index separately. Three are about `.to`: what changes, and what comes
# back? For the last ones, write the number in powers of two and count its digits.
#
# </details>

# %% answer="predict-devices-and-dtypes"
### BEGIN SOLUTION
answers = {
    "same_label": False,  # torch.device("cuda") == torch.device("cuda:0")
    "index_7": False,  # does torch.device("cuda:7") raise on a machine without a GPU number 7?
    "gpu": True,  # does torch.device("gpu") raise?
    "dropped_to": "cpu",  # x = torch.ones(2); x.to("meta"); x.device.type
    "module_to": "meta",  # m = nn.Linear(2, 2); m.to("meta"); m.weight.device.type
    "noop_to": True,  # x = torch.ones(2); x.to("cpu") is x
    "int_literal": "int64",  # torch.set_default_dtype(torch.float64); torch.tensor([1, 2]).dtype
    "bf16_513": 512.0,  # torch.tensor(513.0).bfloat16().item()
    "half_70000": math.inf,  # torch.tensor(70000.0).half().item()
    "cpu_0": False,  # torch.ones(2, device="cpu:0").device == torch.device("cpu:0")
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "same_label": ...,  # torch.device("cuda") == torch.device("cuda:0")
#     "index_7": ...,  # does torch.device("cuda:7") raise on a machine without a GPU number 7?
#     "gpu": ...,  # does torch.device("gpu") raise?
#     "dropped_to": ...,  # x = torch.ones(2); x.to("meta"); x.device.type
#     "module_to": ...,  # m = nn.Linear(2, 2); m.to("meta"); m.weight.device.type
#     "noop_to": ...,  # x = torch.ones(2); x.to("cpu") is x
#     "int_literal": ...,  # torch.set_default_dtype(torch.float64); torch.tensor([1, 2]).dtype
#     "bf16_513": ...,  # torch.tensor(513.0).bfloat16().item()
#     "half_70000": ...,  # torch.tensor(70000.0).half().item()
#     "cpu_0": ...,  # torch.ones(2, device="cpu:0").device == torch.device("cpu:0")
# }
### END GIVEN

# %% check="predict-devices-and-dtypes" points=2
"""Ten predictions about devices and dtypes, each compared with what its snippet gives here."""
with check("predict-devices-and-dtypes") as test:

    def does_raise(call):
        """Whether a call raises."""
        try:
            call()
        except (RuntimeError, ValueError, AssertionError):
            return True
        return False

    def dtype_of_ints():
        """The dtype of a tensor of whole numbers while the default dtype is float64."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return torch.tensor([1, 2]).dtype
        finally:
            torch.set_default_dtype(before)

    def types_after_to():
        """The types of the devices of a tensor and of a module after .to("meta") on both."""
        x, m = torch.ones(2, device="cpu"), nn.Linear(2, 2, device="cpu")
        x.to("meta")
        m.to("meta")
        return x.device.type, m.weight.device.type

    test("every item is compared with what its snippet gives")
    dropped, moved = types_after_to()
    on_cpu = torch.ones(2, device="cpu")
    step_four = (
        "bfloat16 stores 7 fraction bits: between 512 and 1024 it has only multiples of 4, so 513 is rounded to 512."
    )
    the_type = "The item asks for the device's `.type`, which is a string."
    integers = "The default dtype concerns floating point creation only; Python ints still become int64."
    over = "float16 ends at 65504, so 70000 overflows to infinity (it is not clamped)."
    test.points = observe_value(answers).predicts(
        {
            "same_label": prediction(
                torch.device("cuda") == torch.device("cuda:0"),
                because='torch.device("cuda") has index None, "cuda:0" has index 0: as labels they differ, although '
                "both may end up on the same card. Compare `.type`, or resolve the index first.",
            ),
            "index_7": prediction(
                does_raise(lambda: torch.device("cuda:7")),
                because='A device object is only a label: torch.device("cuda:7") is built without asking whether that '
                "card exists. The error comes at the first allocation.",
            ),
            "gpu": prediction(
                does_raise(lambda: torch.device("gpu")),
                because='"gpu" is no device type. The name is "cuda" (also for AMD cards under ROCm); '
                'torch.device("gpu") raises at once.',
            ),
            "dropped_to": prediction(
                dropped,
                (torch.device("cpu"), the_type),
                because="Tensor.to returns a new tensor and leaves x where it was; here the result was dropped.",
            ),
            "module_to": prediction(
                moved,
                (torch.device("meta"), the_type),
                because="Module.to moves the parameters of the module itself (in place) and returns the module: "
                "no assignment needed, unlike for tensors.",
            ),
            "noop_to": prediction(
                on_cpu.to("cpu") is on_cpu,
                because="When device and dtype already match, Tensor.to returns the very same object, no copy.",
            ),
            "int_literal": prediction(
                dtype_of_ints(),
                ("int32", "Python ints become int64 tensors."),
                because=integers,
            ),
            "bf16_513": prediction(
                torch.tensor(513.0, device="cpu").bfloat16().item(),
                (514, "Between 256 and 512 bfloat16 has the even numbers; at 512 the step doubles. " + step_four),
                ("512", "The item asks for a number, and this is text."),
                ("512.0", "The item asks for a number, and this is text."),
                (516, "513 is nearer to 512 than to 516. " + step_four),
                (math.inf, "bfloat16 has the range of float32; what it lacks is digits. " + step_four),
                because=step_four,
            ),
            "half_70000": prediction(
                torch.tensor(70000.0, device="cpu").half().item(),
                (70144, "That is what bfloat16 makes of it. " + over),
                (math.nan, "Too large a number becomes infinity. " + over),
                because=over,
            ),
            "cpu_0": prediction(
                torch.ones(2, device="cpu:0").device == torch.device("cpu:0"),
                because="The device of a tensor is concrete, and a CPU tensor says `cpu`, without an index; as labels, "
                "`cpu` and `cpu:0` differ.",
            ),
        },
        points=2,
    )
test.points
