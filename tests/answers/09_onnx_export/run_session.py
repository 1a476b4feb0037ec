import weakref

import numpy as np
import onnxruntime as ort
import torch

TYPES = {"tensor(float16)": torch.float16, "tensor(float)": torch.float32, "tensor(double)": torch.float64}


def fed(session, inputs, convert, name=lambda one: one.name, refuse=True, count=True):
    """The feed of a session, with parts to replace."""
    expected = session.get_inputs()
    if count and len(expected) != len(inputs):
        raise ValueError(f"expected {[one.name for one in expected]}, got {len(inputs)}")
    feed = {}
    for one, tensor in zip(expected, inputs, strict=False):
        if refuse and tensor.is_floating_point() != (one.type in TYPES):
            raise TypeError(f"{one.name} must be {one.type}")
        feed[name(one)] = convert(one, tensor)
    return feed


def cast(one, tensor):
    return tensor.detach().to(TYPES.get(one.type, tensor.dtype)).numpy()


# corners: 0-d


# %% right: type table and dict comprehension, outputs copied
def run_onnx(session, *inputs):
    names = [i.name for i in session.get_inputs()]
    if len(names) != len(inputs):
        raise ValueError("the model needs " + ", ".join(names))
    for i, t in zip(session.get_inputs(), inputs, strict=True):
        if ("float" in i.type or "double" in i.type) != t.dtype.is_floating_point:
            raise TypeError("wrong kind of numbers for " + i.name)
    feed = {
        i.name: (t.detach().to(TYPES[i.type]) if i.type in TYPES else t.detach()).contiguous().numpy()
        for i, t in zip(session.get_inputs(), inputs, strict=True)
    }
    return [torch.from_numpy(a).clone() for a in session.run([o.name for o in session.get_outputs()], feed)]


# %% right: through numpy dtypes that are derived from the string, strict zip
def run_onnx(session, *inputs):
    feed = {}
    try:
        pairs = list(zip(session.get_inputs(), inputs, strict=True))
    except ValueError:
        names = ", ".join(one.name for one in session.get_inputs())
        raise ValueError(f"wrong number of inputs; expected: {names}") from None
    for one, tensor in pairs:
        word = one.type[len("tensor(") : -1]
        dtype = np.dtype({"float": "float32", "double": "float64"}.get(word, word))
        if (dtype.kind == "f") is not torch.is_floating_point(tensor):
            raise TypeError(f"input {one.name}: {tensor.dtype} for {dtype}")
        array = (tensor.detach().double() if dtype.kind == "f" else tensor.detach()).numpy()
        feed[one.name] = array.astype(dtype)
    return [torch.tensor(array) for array in session.run(None, feed)]


# %% right: OrtValue objects and run_with_ort_values
def run_onnx(session, *inputs):
    feed = {k: ort.OrtValue.ortvalue_from_numpy(v) for k, v in fed(session, inputs, cast).items()}
    outputs = [o.name for o in session.get_outputs()]
    return [torch.from_numpy(v.numpy().copy()) for v in session.run_with_ort_values(outputs, feed)]


# %% wrong: feeds the name 'input'
# says: Use the names from session.get_inputs(), because they depend on the export.
# earns: 0 of 2
# lesson
def run_onnx(session, *inputs):
    feed = fed(session, inputs, cast, name=lambda one: "input")
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: the names that the export of this example gave
# says: Use the names from session.get_inputs(), because they depend on the export.
# says: Each session has its own number of inputs, with its own names. Ask session.get_inputs().
# earns: 0 of 2
def run_onnx(session, *inputs):
    fed(session, inputs, cast)
    feed = {
        name: t.detach().float().numpy() if name == "x" else t.numpy()
        for name, t in zip(("x", "idx"), inputs, strict=True)
    }
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: passes tensors
# says: NumPy arrays, not tensors. Convert on the way in
# earns: 0 of 2
# lesson
def run_onnx(session, *inputs):
    feed = fed(session, inputs, lambda one, tensor: tensor.detach())
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: returns NumPy arrays
# says: A session takes and returns NumPy arrays, not tensors. Convert on the way in and on the way out.
# earns: 1 of 2
def run_onnx(session, *inputs):
    return session.run(None, fed(session, inputs, cast))


# %% wrong: no detach
# says: numpy() raises an error if the tensor requires grad. Detach it first.
# earns: 1 of 2
# lesson
def run_onnx(session, *inputs):
    feed = fed(session, inputs, lambda one, tensor: tensor.to(TYPES.get(one.type, tensor.dtype)).numpy())
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: no cast
# says: Each input has its own type. Cast floating-point tensors to the floating-point type that the session
# earns: 1 of 2
# lesson
def run_onnx(session, *inputs):
    feed = fed(session, inputs, lambda one, tensor: tensor.detach().numpy())
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: casts everything to float32
# says: Each input has its own type. Cast floating-point tensors to the floating-point type that the session
# says: An input got numbers of the wrong type. Follow the order of session.get_inputs(), and leave integers
# earns: 0 of 2
def run_onnx(session, *inputs):
    feed = fed(session, inputs, lambda one, tensor: tensor.detach().float().numpy())
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: casts floating tensors to float32, whatever is expected
# says: Each input has its own type. Cast floating-point tensors to the floating-point type that the session
# earns: 1 of 2
def run_onnx(session, *inputs):
    feed = fed(session, inputs, lambda one, t: (t.detach().float() if t.is_floating_point() else t).numpy())
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: a table without float16
# says: Each input has its own type. Cast floating-point tensors to the floating-point type that the session
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    table = {"tensor(float)": torch.float32, "tensor(double)": torch.float64}
    feed = fed(session, inputs, lambda one, t: t.detach().to(table.get(one.type, t.dtype)).numpy())
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: casts in NumPy, which knows no bfloat16
# says: Each input has its own type. Cast floating-point tensors to the floating-point type that the session
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    names = {"tensor(float16)": "float16", "tensor(float)": "float32", "tensor(double)": "float64"}
    feed = fed(session, inputs, lambda one, t: t.detach().numpy().astype(names.get(one.type, "int64")))
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: casts by way of float32
# says: The output differs from what the session returns for these inputs.
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    feed = fed(session, inputs, lambda one, t: cast(one, t.float() if t.is_floating_point() else t))
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: casts integers too
# says: An integer tensor where the session expects a floating-point tensor (or the reverse) is the caller's
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    types = TYPES | {"tensor(int64)": torch.int64}
    feed = fed(session, inputs, lambda one, t: t.detach().to(types[one.type]).numpy(), refuse=False)
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: refuses integers only, not floating tensors for integers
# says: An integer tensor where the session expects a floating-point tensor (or the reverse) is the caller's
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    for one, tensor in zip(session.get_inputs(), inputs):
        if one.type in TYPES and not tensor.is_floating_point():
            raise TypeError(one.name)
    types = TYPES | {"tensor(int64)": torch.int64}
    feed = fed(session, inputs, lambda one, t: t.detach().to(types[one.type]).numpy(), refuse=False)
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: a TypeError without the name
# says: An integer tensor where the session expects a floating-point tensor (or the reverse) is the caller's
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    try:
        feed = fed(session, inputs, cast)
    except TypeError:
        raise TypeError("wrong type") from None
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: zip without a look at the lengths
# says: There are too many or too few inputs. Raise ValueError with the expected names (zip silently drops the
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    return [torch.from_numpy(a) for a in session.run(None, fed(session, inputs, cast, count=False))]


# %% wrong: a ValueError without names
# says: The ValueError must name the inputs that the session expects.
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    if len(inputs) != len(session.get_inputs()):
        raise ValueError("wrong number of arguments")
    return [torch.from_numpy(a) for a in session.run(None, fed(session, inputs, cast))]


# %% wrong: returns the first output only
# says: The result must be a list of tensors, one for each output of the session.
# says: The result must be a list of tensors, one for each output.
# earns: 0 of 2
def run_onnx(session, *inputs):
    return torch.from_numpy(session.run(None, fed(session, inputs, cast))[0])


# %% wrong: a list with the first output only
# says: Return all outputs, in order, as a list.
# earns: 1 of 2
def run_onnx(session, *inputs):
    return [torch.from_numpy(session.run(None, fed(session, inputs, cast))[0])]


# %% wrong: outputs sorted by name
# says: The outputs differ from those that the session returns for these inputs, in its order.
# earns: 1 of 2
def run_onnx(session, *inputs):
    names = sorted(one.name for one in session.get_outputs())
    return [torch.from_numpy(a) for a in session.run(names, fed(session, inputs, cast))]


# %% wrong: inputs in the order of the alphabet
# says: Each input has its own type. Cast floating-point tensors to the floating-point type that the session
# says: An input got numbers of the wrong type. Follow the order of session.get_inputs(), and leave integers
# earns: 0 of 2
def run_onnx(session, *inputs):
    feed = fed(session, inputs, cast)
    names = sorted(feed)
    feed = dict(zip(names, feed.values(), strict=True))
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: outputs in float64
# says: You return an output as torch.float64, but the session gave torch.float32.
# earns: 0 of 2
def run_onnx(session, *inputs):
    return [torch.from_numpy(a).double() for a in session.run(None, fed(session, inputs, cast))]


# %% wrong: casts the caller's tensor in place
# says: Your code changed one of the given tensors.
# earns: 1 of 2
def run_onnx(session, *inputs):
    for tensor in inputs:
        tensor.requires_grad_(False)
    return [torch.from_numpy(a) for a in session.run(None, fed(session, inputs, cast))]


# %% right: in inference mode, through io_binding
@torch.inference_mode()
def run_onnx(session, *inputs):
    binding = session.io_binding()
    for name, array in fed(session, inputs, cast).items():
        binding.bind_cpu_input(name, np.ascontiguousarray(array))
    for one in session.get_outputs():
        binding.bind_output(one.name)
    session.run_with_iobinding(binding)
    return [torch.from_numpy(array.copy()) for array in binding.copy_outputs_to_cpu()]


# %% right: leaves settings of torch and NumPy behind
def run_onnx(session, *inputs):
    outputs = [torch.from_numpy(a) for a in session.run(None, fed(session, inputs, cast))]
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.nn.modules.module.register_module_forward_hook(lambda module, args, out: None)
    return outputs


# %% wrong: casts every input to the type of the first one
# says: Each input has its own type. Cast floating-point tensors to the floating-point type that the session
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    dtype = TYPES.get(session.get_inputs()[0].type)
    feed = fed(
        session, inputs, lambda one, t: t.detach().to(dtype if dtype and t.is_floating_point() else t.dtype).numpy()
    )
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: outputs that lost their dtype and, where they are numbers, their shape
# says: You return an output as
# earns: 1 of 2
# corner: 0-d
def run_onnx(session, *inputs):
    return [torch.tensor(a.tolist()) for a in session.run(None, fed(session, inputs, cast))]


# %% wrong: writes all results of a shape into one buffer
# says: The outputs differ from those that the session returns for these inputs, in its order.
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    buffers, outputs = {}, []
    for a in session.run(None, fed(session, inputs, cast)):
        a = torch.as_tensor(a)
        outputs.append(buffers.setdefault((a.shape, a.dtype), torch.empty_like(a)).copy_(a))
    return outputs


# %% wrong: a list of None
# says: The result must be a list of tensors
# earns: 0 of 2
def run_onnx(session, *inputs):
    return [None for _ in session.get_outputs()]


# %% wrong: leaves the process
# says: Your code raised SystemExit
# earns: 0 of 2
def run_onnx(session, *inputs):
    raise SystemExit(3)


# %% wrong: outputs that are equal are one tensor
# says: Writing into an output must change neither another output nor an input.
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    kept = {}
    outputs = [torch.from_numpy(a) for a in session.run(None, fed(session, inputs, cast))]
    return [kept.setdefault((t.dtype, t.shape, t.numpy().tobytes()), t) for t in outputs]


# %% right: a table of all types, integers among them
def run_onnx(session, *inputs):
    types = TYPES | {"tensor(int64)": torch.int64, "tensor(int32)": torch.int32}
    feed = fed(session, inputs, lambda one, t: t.detach().to(types[one.type]).numpy())
    return [torch.from_numpy(a) for a in session.run(None, feed)]


# %% wrong: names by the id of the session
# says: The names of an earlier session were used for a later one.
# earns: 1 of 2
# caught: hidden
NAMES = {}


def run_onnx(session, *inputs):
    expected = session.get_inputs()
    names = NAMES.setdefault((id(session), *[one.type for one in expected]), [one.name for one in expected])
    feed = fed(session, inputs, cast)
    swapped = dict(zip(names, feed.values(), strict=True))
    return [torch.tensor(array) for array in session.run(None, swapped)]


# %% right: names and types by the session
EXPECTED = weakref.WeakKeyDictionary()


def run_onnx(session, *inputs):
    expected = EXPECTED.setdefault(session, session.get_inputs())
    if len(expected) != len(inputs):
        raise ValueError(f"expected {[one.name for one in expected]}")
    feed = {}
    for one, tensor in zip(expected, inputs, strict=True):
        if tensor.is_floating_point() != (one.type in TYPES):
            raise TypeError(f"{one.name} must be {one.type}")
        feed[one.name] = cast(one, tensor)
    return [torch.tensor(array) for array in session.run(None, feed)]


# %% wrong: buffers for the outputs that every call uses again
# says: A second call of the same session wrote into an output of the first. Give every call its own memory.
# earns: 1 of 2
BUFFERS = weakref.WeakKeyDictionary()


def run_onnx(session, *inputs):
    buffers, came = BUFFERS.setdefault(session, {}), []
    for n, array in enumerate(session.run(None, fed(session, inputs, cast))):
        made = torch.tensor(array)
        came.append(buffers.setdefault((n, made.shape, made.dtype), torch.empty_like(made)).copy_(made))
    return came


# %% wrong: refuses floating tensors only where int64 is expected
# says: An integer tensor where the session expects a floating-point tensor (or the reverse) is the caller's
# earns: 1 of 2
# caught: hidden
def run_onnx(session, *inputs):
    def convert(one, tensor):
        if one.type == "tensor(int64)" and tensor.is_floating_point():
            raise TypeError(f"{one.name} must be {one.type}")
        if one.type in TYPES and not tensor.is_floating_point():
            raise TypeError(f"{one.name} must be {one.type}")
        return cast(one, tensor)

    return [torch.tensor(array) for array in session.run(None, fed(session, inputs, convert, refuse=False))]
