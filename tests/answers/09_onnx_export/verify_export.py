import copy

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import Tensor


def listed(out):
    return [out] if isinstance(out, Tensor) else list(out)


def close(a, b, rtol, atol):
    return np.allclose(a, b, rtol=rtol, atol=atol)


def compared(a, b, rtol, atol, same=close, shapes=True):
    """A problem without its place, or nothing."""
    if shapes and a.shape != b.shape:
        return "shape"
    return "" if same(a, b, rtol, atol) else "value"


def verified(
    path,
    model,
    inputs,
    rtol=1e-3,
    atol=1e-5,
    *,
    check=True,
    compare=compared,
    evaluate=True,
    restore="each",
    outputs=None,
    empty=True,
    no_grad=True,
    catch=True,
    stop=False,
    place=lambda n: f": input {n}",
    feed=lambda name, x: {name: x.numpy()},
):
    """A right answer with parts to replace."""
    if empty and len(inputs) == 0:
        raise ValueError("no inputs")
    if check:
        try:
            onnx.checker.check_model(onnx.load(path))
        except Exception as error:
            return [f"checker: {error}"]
    session, problems = ort.InferenceSession(path), []
    flags, was = [(m, m.training) for m in model.modules()], model.training
    if evaluate:
        model.eval()
    try:
        for n, x in enumerate(inputs):
            with torch.set_grad_enabled(not no_grad):
                expected = [one.detach().numpy() for one in listed(model(x))]
            try:
                came = session.run(None, feed(session.get_inputs()[0].name, x))
            except Exception:
                if not catch:
                    raise
                problems.append("run" + place(n))
                continue
            for a, b in list(zip(came, expected, strict=True))[:outputs]:
                if kind := compare(a, b, rtol, atol):
                    problems.append(kind + place(n))
            if stop and problems:
                break
    finally:
        if restore == "each":
            for module, training in flags:
                module.training = training
        elif restore == "whole":
            model.train(was)
    return problems


# corners: nan, members, caller's modes, empty


# %% right: checker, session, loop
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol)


# %% right: a deep copy in eval mode, messages of assertions become entries
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    if not inputs:
        raise ValueError("inputs is empty")
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as error:
        return ["checker: " + str(error)]
    model, problems = copy.deepcopy(model).eval(), []
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    for index, x in enumerate(inputs):
        with torch.inference_mode():
            expected = listed(model(x))
        try:
            results = session.run(
                [o.name for o in session.get_outputs()], {session.get_inputs()[0].name: np.asarray(x)}
            )
        except Exception as error:
            problems.append(f"run: {index} {error!r}")
            continue
        for result, wanted in zip(results, expected, strict=True):
            try:
                assert result.shape == tuple(wanted.shape), f"shape: {index}, {result.shape}"
                assert np.isclose(result, wanted.numpy(), rtol, atol).all(), f"value: {index}"
            except AssertionError as error:
                problems.append(str(error))
    return problems


# %% right: torch.testing.assert_close on tensors
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    def same(a, b, rtol, atol):
        try:
            torch.testing.assert_close(torch.from_numpy(a), torch.from_numpy(b), rtol=rtol, atol=atol)
        except AssertionError:
            return False
        return True

    return verified(path, model, inputs, rtol, atol, compare=lambda a, b, r, t: compared(a, b, r, t, same))


# %% wrong: the checker alone
# says: The checker looks only at the structure, so a file with changed weights passes. Compare numbers.
# says: must be a problem `shape:`
# earns: 1 of 3
# lesson
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    verified(path, model, inputs, rtol, atol)
    try:
        onnx.checker.check_model(path)
    except Exception as error:
        return [f"checker: {error}"]
    return []


# %% wrong: compares the first input only
# says: Try all inputs, even after a problem.
# earns: 1 of 3
# lesson
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs[:1], rtol, atol)


# %% wrong: compares the last input only
# says: You compared only one input
# says: If onnx.checker refuses the file, report one entry `checker:`.
# says: An output of shape (1, N) where (N, 1) is expected must be a problem `shape:`, though NumPy
# earns: 0 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    found = verified(path, model, inputs[-1:], rtol, atol)
    return [f"{found[0].split(':')[0]}: input {n}" for n in range(len(inputs))] if found else []


# %% wrong: stops after the first problem
# says: Try all inputs, even after a problem.
# earns: 1 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, stop=True)


# %% wrong: np.allclose without a look at the shapes
# says: must be a problem `shape:`, though NumPy compares the two by broadcasting. Compare shapes first.
# earns: 2 of 3
# lesson
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, compare=lambda a, b, r, t: compared(a, b, r, t, shapes=False))


# %% wrong: no eval()
# says: You ran the model in training mode
# says: You ran the model in training mode. Call model.eval() first.
# earns: 1 of 3
# lesson
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, evaluate=False)


# %% wrong: compares with ==
# says: You refuse a good file. Bit equality is too strict, because the runtimes add in different orders. Use
# says: You don't use the tolerances rtol and atol, or change their default values.
# earns: 1 of 3
# lesson
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    def same(a, b, rtol, atol):
        return np.array_equal(a, b)

    return verified(path, model, inputs, rtol, atol, compare=lambda a, b, r, t: compared(a, b, r, t, same))


# %% wrong: exceptions of onnxruntime pass through
# says: An exception from the checker or the runtime ended your function. It must become an entry of the list.
# earns: 2 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, catch=False)


# %% wrong: exceptions of the checker pass through
# says: An exception from the checker or the runtime ended your function. It must become an entry of the list.
# earns: 2 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    onnx.checker.check_model(path)
    return verified(path, model, inputs, rtol, atol)


# %% wrong: the first output only
# says: You compared only the first output.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, outputs=1)


# %% wrong: asks whether the difference exceeds the tolerance
# says: Your code missed a NaN. A comparison like (diff > tol).any() is False for NaN.
# earns: 2 of 3
# corner: nan
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    def same(a, b, rtol, atol):
        return not (np.abs(a - b) > atol + rtol * np.abs(b)).any()

    return verified(path, model, inputs, rtol, atol, compare=lambda a, b, r, t: compared(a, b, r, t, same))


# %% wrong: leaves the model in eval mode
# says: The model, or a frozen layer, is in a different mode afterwards. Restore each flag.
# earns: 2 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, restore="")


# %% wrong: model.train(old) at the end
# says: The model, or a frozen layer, is in a different mode afterwards. Restore each flag.
# earns: 2 of 3
# corner: members
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, restore="whole")


# %% wrong: puts the flags back only where all went well
# says: The model, or a frozen layer, is in a different mode afterwards. Restore each flag.
# earns: 2 of 3
# caught: hidden
# corner: caller's modes
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    flags = [(m, m.training) for m in model.modules()]
    found = verified(path, model, inputs, rtol, atol, restore="")
    for module, training in flags:
        module.training = training
    return found


# %% wrong: no checker, a refused file is a problem of running
# says: If onnx.checker refuses the file, report one entry `checker:`.
# earns: 2 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    try:
        return verified(path, model, inputs, rtol, atol, check=False)
    except ValueError:
        raise
    except Exception as error:
        return [f"run: {error}"]


# %% wrong: no checker, what onnxruntime refuses to load is called checker
# says: If onnx.checker refuses the file, report one entry `checker:`.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    try:
        ort.InferenceSession(path)
    except Exception as error:
        return [f"checker: {error}"]
    return verified(path, model, inputs, rtol, atol, check=False)


# %% wrong: goes on after the checker's refusal
# says: If the checker refuses the file, don't run anything.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    for x in inputs:
        with torch.no_grad():
            copy.deepcopy(model).eval()(x)
    return verified(path, model, inputs, rtol, atol)


# %% wrong: accepts an empty list
# says: Without inputs nothing is verified, so raise ValueError.
# earns: 2 of 3
# caught: hidden
# corner: empty
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, empty=False)


# %% wrong: gradients are tracked
# says: Your code tracks gradients. Run the model under no_grad.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, no_grad=False)


# %% wrong: tolerances of its own
# says: You don't use the tolerances rtol and atol, or change their default values.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, 1e-3, 1e-5)


# %% wrong: atol larger by default
# says: You don't use the tolerances rtol and atol, or change their default values.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-3):
    return verified(path, model, inputs, rtol, atol)


# %% wrong: entries without the index
# says: Every entry must contain the index of its input, and the entries must follow the order of the inputs.
# earns: 1 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, place=lambda n: ": this input")


# %% wrong: counts inputs from 1
# says: Every entry must contain the index of its input, and the entries must follow the order of the inputs.
# earns: 1 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, place=lambda n: f": input {n + 1}")


# %% wrong: entries without a kind
# says: Every entry must start with its kind: checker:, run:, shape: or value:.
# says: If onnx.checker refuses the file, report one entry `checker:`.
# earns: 0 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return [f"problem with {one}" for one in verified(path, model, inputs, rtol, atol)]


# %% wrong: True or False
# says: The result must be a list of strings.
# says: If onnx.checker refuses the file, report one entry `checker:`.
# earns: 0 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return not verified(path, model, inputs, rtol, atol)


# %% wrong: exports again
# says: Your code raised
# earns: 0 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    raise RuntimeError("no idea")


# %% right: np.testing.assert_allclose after a look at the shapes
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    def same(a, b, rtol, atol):
        try:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
        except AssertionError:
            return False
        return True

    return verified(path, model, inputs, rtol, atol, compare=lambda a, b, r, t: compared(a, b, r, t, same))


# %% right: a comparison that is not so for NaN
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    def same(a, b, rtol, atol):
        return bool((np.abs(a - b) <= atol + rtol * np.abs(b)).all())

    return verified(path, model, inputs, rtol, atol, compare=lambda a, b, r, t: compared(a, b, r, t, same))


# %% wrong: the tolerance of the largest value for all
# says: Each number has its own tolerance, atol + rtol * |value|, and here a small number differs by more than
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    def same(a, b, rtol, atol):
        return bool(np.abs(a - b).max() <= atol + rtol * np.abs(b).max())

    return verified(path, model, inputs, rtol, atol, compare=lambda a, b, r, t: compared(a, b, r, t, same))


# %% wrong: rtol and atol exchanged
# says: You don't use the tolerances rtol and atol, or change their default values.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, atol, rtol)


# %% wrong: another shape is another value
# says: must be a problem `shape:`
# earns: 2 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return [one.replace("shape", "value") for one in verified(path, model, inputs, rtol, atol)]


# %% wrong: an entry in place of a list
# says: The result must be a list of strings.
# says: If onnx.checker refuses the file, report one entry `checker:`.
# earns: 0 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return "\n".join(verified(path, model, inputs, rtol, atol))


# %% wrong: ends with its first problem
# says: Try all inputs, even after a problem.
# earns: 1 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    if not inputs:
        raise ValueError("nothing to verify")
    try:
        onnx.checker.check_model(path)
    except Exception as error:
        return [f"checker: {error}"]
    session = ort.InferenceSession(path)
    flags = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        for n, x in enumerate(inputs):
            with torch.no_grad():
                expected = model(x)
            try:
                came = session.run(None, {session.get_inputs()[0].name: x.detach().numpy()})
            except Exception as error:
                return [f"run: input {n}: {error}"]
            expected = [expected] if isinstance(expected, Tensor) else expected
            for a, b in zip(came, expected, strict=True):
                if a.shape != tuple(b.shape):
                    return [f"shape: input {n}"]
                if not np.allclose(a, b.numpy(), rtol=rtol, atol=atol):
                    return [f"value: input {n}"]
    finally:
        for m, flag in flags:
            m.training = flag
    return []


# %% wrong: one problem for each input
# says: Compare all outputs, even after a problem with the first.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    if not inputs:
        raise ValueError("nothing to verify")
    try:
        onnx.checker.check_model(path)
    except Exception as error:
        return [f"checker: {error}"]
    session, problems = ort.InferenceSession(path), []
    flags = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        for n, x in enumerate(inputs):
            with torch.no_grad():
                expected = model(x)
            try:
                came = session.run(None, {session.get_inputs()[0].name: x.detach().numpy()})
            except Exception as error:
                problems.append(f"run: input {n}: {error}")
                continue
            expected = [expected] if isinstance(expected, Tensor) else expected
            for a, b in zip(came, expected, strict=True):
                if a.shape != tuple(b.shape):
                    problems.append(f"shape: input {n}")
                    break
                if not np.allclose(a, b.numpy(), rtol=rtol, atol=atol):
                    problems.append(f"value: input {n}")
                    break
    finally:
        for m, flag in flags:
            m.training = flag
    return problems


# %% wrong: rtol of the file's value
# says: `rtol` is relative to the model's value, and yours is relative to the file's.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    def same(a, b, rtol, atol):
        return np.allclose(b, a, rtol=rtol, atol=atol)

    return verified(path, model, inputs, rtol, atol, compare=lambda *four: compared(*four, same=same))


# %% wrong: two entries, for the largest and for the mean difference
# says: Each of the three inputs must give one entry `value:`.
# says: An output that differs must give one entry `value:`.
# earns: 1 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    found = verified(path, model, inputs, rtol, atol)
    return [one for one in found for _ in range(2 if one.startswith("value") else 1)]


# %% wrong: changes the weights to see whether it would notice, and leaves them so
# says: Your code changed parameters or buffers of the model.
# earns: 2 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    problems = verified(path, model, inputs, rtol, atol)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.5)
    return problems


# %% wrong: compares the shape with the one that the file declares, where the batch is a name
# says: You refuse a good file.
# says: An output of shape (1, N) where (N, 1) is expected must be a problem `shape:`
# earns: 0 of 3
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    problems = verified(path, model, inputs, rtol, atol)
    if problems and problems[0].startswith("checker"):
        return problems
    declared = ort.InferenceSession(path).get_outputs()[0].shape
    return problems + [f"shape: input {n}" for n, x in enumerate(inputs) if len(x) != declared[0]]


# %% wrong: compares each output with the model's first
# says: You refuse a good file with two outputs.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            out = self.inner(x)
            return out if isinstance(out, Tensor) else [out[0]] * len(out)

    flags = [(m, m.training) for m in model.modules()]
    problems = verified(path, First(), inputs, rtol, atol)
    for module, training in flags:
        module.training = training
    return problems


# %% wrong: leaves an input after an output of another shape
# says: Compare all outputs, even after a problem with the first.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    found = verified(path, model, inputs, rtol, atol)
    shapes = {entry for entry in found if entry.startswith("shape")}
    return [entry for entry in found if entry in shapes or entry.replace("value", "shape") not in shapes]


# %% wrong: one entry for each input and kind
# says: Each output that differs gives an entry of its own.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return list(dict.fromkeys(verified(path, model, inputs, rtol, atol)))


# %% wrong: model.train(old) at the end, then eval() for the frozen layers
# says: The model, or a frozen layer, is in a different mode afterwards. Restore each flag.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    frozen = [module for module in model.modules() if not module.training]
    try:
        return verified(path, model, inputs, rtol, atol, restore="whole")
    finally:
        for module in frozen:
            module.eval()


# %% wrong: takes for granted that the file's input is called x
# says: The input of this file is called pixels. Take the name from session.get_inputs().
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, feed=lambda name, x: {"x": x.numpy()})


# %% wrong: casts every input to float32
# says: This file takes float64, and so does the model. Pass each input on in the type that it has.
# earns: 2 of 3
# caught: hidden
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    return verified(path, model, inputs, rtol, atol, feed=lambda name, x: {name: x.numpy().astype(np.float32)})
