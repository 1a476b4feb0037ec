# %% right: assert_close, whose message becomes the problem
# It compares like `allclose`, and its message says how many elements differ and by how much. It would also compare the
# dtypes, so `check_dtype` is off. The model is copied instead of switched, which takes the memory of a second model.
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    """The problems of the file, in the words of torch.testing."""
    if not inputs:
        raise ValueError("without inputs nothing is verified")
    try:
        onnx.checker.check_model(path)
    except Exception as error:
        return [f"checker: {error}"]
    session, problems = ort.InferenceSession(path), []
    model = copy.deepcopy(model).eval()
    for number, x in enumerate(inputs):
        with torch.no_grad():
            expected = model(x)
        try:
            came = session.run(None, {session.get_inputs()[0].name: x.detach().numpy()})
        except Exception as error:
            problems.append(f"run: input {number}: {error}")
            continue
        expected = [expected] if isinstance(expected, Tensor) else expected
        for k, (a, b) in enumerate(zip(came, expected, strict=True)):
            a = torch.from_numpy(a)
            if a.shape != b.shape:
                problems.append(f"shape: input {number}, output {k}: {a.shape}, not {b.shape}")
                continue
            try:
                torch.testing.assert_close(a, b, rtol=rtol, atol=atol, check_dtype=False)
            except AssertionError as error:
                problems.append(f"value: input {number}, output {k}: {error}")
    return problems


# %% wrong: allclose without a look at the shapes
# says: NumPy compares the two by broadcasting. Compare shapes first.
# `allclose` broadcasts (1, 3) against (4, 3), so a file that returns one row for the whole batch can pass.
def verify_onnx(path, model, inputs, rtol=1e-3, atol=1e-5):
    """The problems of the file, but for shapes that broadcast."""
    if not inputs:
        raise ValueError("without inputs nothing is verified")
    try:
        onnx.checker.check_model(path)
    except Exception as error:
        return [f"checker: {error}"]
    session, problems = ort.InferenceSession(path), []
    model = copy.deepcopy(model).eval()
    for number, x in enumerate(inputs):
        with torch.no_grad():
            expected = model(x)
        try:
            came = session.run(None, {session.get_inputs()[0].name: x.detach().numpy()})
        except Exception as error:
            problems.append(f"run: input {number}: {error}")
            continue
        expected = [expected] if isinstance(expected, Tensor) else expected
        for k, (a, b) in enumerate(zip(came, expected, strict=True)):
            if not np.allclose(a, b.numpy(), rtol=rtol, atol=atol):
                problems.append(f"value: input {number}, output {k} differs")
    return problems
