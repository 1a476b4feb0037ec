# %% [markdown]
# ### Exercise 9.3 · What must be deployed?
#
# measure · solid · 15 min · 2 points
#
# A colleague gives you a folder with a model in it, among other things. Which files does the model need, and how large
# are its weights? Write a function that answers this without loading the weights.
#
# **Contract.** `onnx_size(path)`, for any path to a model, absolute or relative, returns a dict with three items.
#
# - `"files"`: the sorted names, relative to the model's folder, of all files that must be deployed, including the model
#   file. External files are those that the model *refers to*, whatever they are called and whatever else is in the
#   folder. (Only initializers of the main graph refer to such files here.)
# - `"weights"`: the bytes of all initializers of the main graph (number of elements times bytes per element), wherever
#   they are stored.
# - `"graph"`: the bytes of the .onnx file, minus the bytes, counted in the same way, of the weights stored inside it.
# - If the model refers to a file that is missing, raise a `FileNotFoundError` that names the file.
#
# **Rule.** Do not read external data: the check sees which files you open, and has an external file whose declared size
# is many gigabytes.
#
# The file has a `TensorProto` for each initializer (ONNX's word for a stored weight). It has the fields `dims`,
# `data_type`, `data_location`, `external_data` (a list of entries with a `key` and a `value`; the keys here are always
# `location`, `offset` and `length`), and `raw_data` or a typed field such as `float_data`.
#
# <details><summary>Hint 1</summary>
#
# Where does an initializer say that its data are in another file? And how do you know their size without reading them?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Load only the .onnx file, without external data. It has the sizes, types and places of all weights. Ask two questions
# about each initializer: How many bytes does it have? (Its dims and type tell you, wherever it is stored.) And is it
# stored inside, or in another file?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# `onnx.load` has an option that leaves the external data alone. Then go through the initializers. Dims times the size
# of one element (`onnx.helper` converts the type to NumPy's) gives the bytes. `data_location` says whether the weight
# is external, and `external_data` then has the file's name. Check that each of these files exists. The graph is the
# size of the file minus the bytes stored inside.
#
# </details>


# %% answer="where-are-the-weights"
def onnx_size(path: str) -> dict[str, Any]:
    """What must be deployed for the model at path.

    {"graph": bytes, "weights": bytes, "files": sorted names}
    """
    ### BEGIN SOLUTION
    model, folder = onnx.load(path, load_external_data=False), Path(path).parent
    files, weights, inside = {Path(path).name}, 0, 0
    for one in model.graph.initializer:
        size = int(np.prod(one.dims)) * onnx.helper.tensor_dtype_to_np_dtype(one.data_type).itemsize
        weights += size
        if one.data_location == onnx.TensorProto.EXTERNAL:
            files.add(next(entry.value for entry in one.external_data if entry.key == "location"))
        else:
            inside += size
    for name in files:
        if not (folder / name).exists():
            raise FileNotFoundError(name)
    return {"graph": os.path.getsize(path) - inside, "weights": weights, "files": sorted(files)}
    ### END SOLUTION


# %% helpers="where-are-the-weights"
def saved(folder, weights):
    """Write a model into a folder. Weights are name: (dtype, number of elements, external file or "", typed); with None
    for the file, the numbers belong to a node of the graph."""
    initializers, nodes = [], [onnx.helper.make_node("Identity", ["x"], ["y"])]
    for name, (dtype, count, file, typed) in weights.items():
        array = np.ones(count, dtype)
        one = onnx.numpy_helper.from_array(array, name)
        if file is None:
            nodes.append(onnx.helper.make_node("Constant", [], [name], value=one))
            continue
        if typed:
            one = onnx.helper.make_tensor(name, one.data_type, one.dims, array)
        if file:
            os.makedirs(os.path.dirname(os.path.join(folder, file)), exist_ok=True)
            with open(os.path.join(folder, file), "ab") as outside:
                outside.write(bytes(-outside.tell() % 256))  # a weight begins where a block begins
                offset = outside.tell()
                outside.write(array.tobytes())
            one.ClearField("raw_data")
            one.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", file), ("offset", offset), ("length", array.nbytes)):
                one.external_data.add(key=key, value=str(value))
        initializers.append(one)
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"])
    out = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n"])
    graph = onnx.helper.make_graph(nodes, "weights", [value], [out], initializers)
    path = os.path.join(folder, "model.onnx")
    Path(path).write_bytes(onnx.helper.make_model(graph).SerializeToString())
    return path


def plainly(came):
    """The same with Python's whole numbers in place of NumPy's, and of floats such as 28.0."""
    if not isinstance(came, dict):
        return came
    return {
        key: int(value) if isinstance(value, np.integer) or (isinstance(value, float) and value.is_integer()) else value
        for key, value in came.items()
    }


def sizes(measure, weights, strangers, missing="", bare=False):
    """Measure a model in a folder with other files, and once more when one of its own is missing. Or from within it."""
    with tempfile.TemporaryDirectory() as folder:
        path = saved(folder, weights)
        for name in strangers:
            Path(folder, name).write_bytes(b"of somebody else")
        if missing:
            measure(path)
            os.remove(os.path.join(folder, missing))
        facts, before = {"file": os.path.getsize(path), "raised": [], "message": ""}, os.getcwd()
        try:
            if bare:
                os.chdir(folder)
            with noting_events() as events:
                facts["came"] = plainly(measure("model.onnx" if bare else path))
            facts |= was_read(events, folder, weights) | {"looked": events.has_opened(path)}
        except NotImplementedError:
            raise
        except Exception as error:
            if not missing:
                raise
            facts |= {"raised": [one.__name__ for one in type(error).__mro__], "message": str(error)}
        finally:
            os.chdir(before)
    return facts


def was_read(events, folder, weights):
    """Whether an external file was opened; and whether processes were begun, of which nobody knows what they open."""
    paths = [os.path.join(folder, file) for _, _, file, _ in weights.values() if file]
    read = any(map(events.has_opened, filter(os.path.exists, paths)))
    return {"read": read, "processes": bool(events.processes)}


def judge_reading(seen):
    """Judge that no external file was opened."""
    unseen = "Leave other processes alone: the check can't see which files they open."
    seen.that(not seen["processes"], unseen, stage="rule")
    seen.that(
        not seen["read"],
        "Your code opens a file of external data. The .onnx file says how large each weight is, so read only that.",
        stage="rule",
    )


only_main = (
    "Only the .onnx file was seen: with external data most bytes are in a second file, and the model does not load "
    "without it. (Loading with external data erases the references: load_external_data=False.)"
)


def judge(seen, weights, files, inside, *more):
    """Judge what came, for weights of so many bytes, of which some lie inside the file; more: mistakes in counting."""
    came = seen["came"]
    is_dict = isinstance(came, dict) and set(came) == {"graph", "weights", "files"}
    seen.that(is_dict, 'The result must be a dict with "graph", "weights" and "files".', stage="type")
    listed = isinstance(came["files"], (list, tuple)) and all(isinstance(name, str) for name in came["files"])
    seen.that(listed, '"files" must be a list of names.', stage="type")
    names, numbers = list(came["files"]), {key: came[key] for key in ("weights", "graph")}
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in numbers.values())
    seen.that(whole, '"graph" and "weights" must be numbers of bytes.', stage="type")
    guessed = "The external file is not always called <name>.onnx.data. Read its location from the initializers."
    folder = "Other files in the folder do not belong to the model."
    relative = "The names must be relative to the model's folder."
    seen.that(not any(os.path.basename(name) != name for name in set(names) - set(files)), relative)
    in_folder = "A file in a subfolder needs the folder in its name: take the location as it is, such as parts/w.bin."
    seen.that(not {os.path.basename(name) for name in files} & set(names) - set(files), in_folder)
    seen.that(names != ["model.onnx"] or len(files) == 1, only_main)
    seen.that("model.onnx.data" not in names or "model.onnx.data" in files, guessed)
    seen.that(set(names) <= set(files), folder)
    seen.that(set(names) >= set(files), "Your list lacks a file. Each initializer may have its own location, or none.")
    seen.that(names == sorted(files), "The names must be sorted, and each must be listed once.")
    outside = weights - inside
    seen.that(
        numbers["weights"] == weights,
        f"The weights have {weights} bytes, but you count {numbers['weights']}.",
        *more,
        mistake(
            "Small weights stay inside the .onnx file even with external data, so a model can have both.",
            when=lambda seen: numbers["weights"] == outside and inside and outside,
        ),
        mistake(
            "You don't count the weights in the external file.",
            when=lambda seen: numbers["weights"] == inside and outside,
        ),
    )
    seen.that(
        numbers["graph"] == seen["file"] - inside,
        "`graph` is the size of the .onnx file minus the weights that are stored inside it, and only those.",
    )
    judge_reading(seen)


# %% check="where-are-the-weights" points=1
"""Files, bytes of weights and bytes of the graph, with data inside, outside and both."""
with check("where-are-the-weights") as test:
    test("all inside one file: 1,200 bytes")
    seen = observe_scenario(sizes, onnx_size, {"w": ("float32", 300, "", False)}, [])
    judge(seen, 1200, ["model.onnx"], inside=1200)

    test("the same weights in a second file")
    seen = observe_scenario(sizes, onnx_size, {"w": ("float32", 300, "model.onnx.data", False)}, [])
    judge(seen, 1200, ["model.onnx", "model.onnx.data"], inside=0)

    test("an external file with another name, and a small weight that stayed inside")
    weights = {"w": ("float32", 300, "tensors.bin", False), "b": ("float32", 7, "", False)}
    seen = observe_scenario(sizes, onnx_size, weights, [])
    judge(seen, 1228, ["model.onnx", "tensors.bin"], inside=28)


# %% check="where-are-the-weights" points=1
"""Other files in the folder, other dtypes, typed fields; a missing file, a large one."""
with check("where-are-the-weights") as test:

    def four_bytes(count):
        """Every element was taken for four bytes."""
        sentence = "Not every weight has 4 bytes per element. Its data_type says how many."
        return mistake(sentence, when=lambda seen: seen["came"]["weights"] == count)

    test("other files in the folder")
    weights = {"w": ("float32", 300, "a.data", False), "v": ("float32", 50, "z.data", False)}
    weights |= {"u": ("float32", 20, "a.data", False)}
    seen = observe_scenario(sizes, onnx_size, weights, ["old.onnx.data", "model.data", "b.bin", "other.onnx"])
    judge(seen, 1480, ["a.data", "model.onnx", "z.data"], inside=0)

    test("numbers of other sizes, inside and outside")
    weights = {"d": ("float64", 11, "", False), "h": ("float16", 300, "w.data", False), "i": ("int64", 5, "", False)}
    weights |= {"b": ("bool", 3, "", False), "far": ("int64", 40, "w.data", False)}
    seen = observe_scenario(sizes, onnx_size, weights, [])
    judge(seen, 88 + 600 + 40 + 3 + 320, ["model.onnx", "w.data"], 131, four_bytes(4 * (11 + 300 + 5 + 3 + 40)))

    ### BEGIN HIDDEN TESTS
    test.hidden("a stranger that bears the usual name")
    weights = {"w": ("float32", 300, "", False)}
    seen = observe_scenario(sizes, onnx_size, weights, ["model.onnx.data"])
    seen.that(
        isinstance(seen["came"], dict) and "model.onnx.data" not in (seen["came"].get("files") or []),
        "Other files in the folder do not belong to the model.",
    )
    judge(seen, 1200, ["model.onnx"], inside=1200)

    test.hidden("a weight without elements, and one without dimensions")
    product = "The number of elements is the product of dims. It is 1 if dims is empty, and 0 if a size is 0."
    weights = {"w": ("float32", 300, "", False), "zero": ("float32", 0, "", False)}
    weights |= {"number": ("float32", (), "", False)}
    seen = observe_scenario(sizes, onnx_size, weights, [])
    judge(seen, 1204, ["model.onnx"], 1204, mistake(product, stage="value"))

    test.hidden("a file in a subfolder")
    weights = {"w": ("float32", 300, "parts/w.bin", False), "b": ("float32", 7, "", False)}
    seen = observe_scenario(sizes, onnx_size, weights, [])
    judge(seen, 1228, ["model.onnx", "parts/w.bin"], 28)

    test.hidden("the model's file in the working folder, by its bare name")
    by_name = mistake(
        "`path` may also be a file's bare name, such as model.onnx, in the working folder. Then it names no folder.",
        stage="raised",
    )
    weights = {"w": ("float32", 300, "w.bin", False), "b": ("float32", 7, "", False)}
    seen = observe_scenario(sizes, onnx_size, weights, [], "", True).expecting(by_name)
    judge(seen, 1228, ["model.onnx", "w.bin"], 28)

    test.hidden("numbers in typed fields")
    weights = {"d": ("float64", 11, "", True), "f": ("float32", 9, "", True)}
    seen = observe_scenario(sizes, onnx_size, weights, [])
    raw = mistake(
        "Not every weight is stored in raw_data. Multiply the number of elements by the bytes per element.",
        when=lambda seen: seen["came"]["weights"] == 0,
    )
    judge(seen, 124, ["model.onnx"], 124, raw)

    test.hidden("a constant in a node of the graph")
    in_a_node = mistake(
        "You also count the numbers of a Constant node, which are no initializer: they belong to the graph.",
        when=lambda seen: seen["came"]["weights"] == 40,
    )
    seen = observe_scenario(sizes, onnx_size, {"w": ("float32", 3, "", False), "c": ("float32", 7, None, False)}, [])
    judge(seen, 12, ["model.onnx"], 12, in_a_node)

    test.hidden("a file that is referred to is missing")
    gone = "If a referenced file is missing, raise FileNotFoundError with its name."
    weights = {"w": ("float32", 300, "here.data", False), "v": ("float32", 50, "gone.data", False)}
    seen = observe_scenario(sizes, onnx_size, weights, ["model.onnx.data"], "gone.data")
    remembered = mistake(
        "You returned what you had measured before the file went missing. Files change, so look at them in every call.",
        when=lambda seen: not seen["raised"] and not seen["looked"],
    )
    told = "FileNotFoundError" in seen["raised"] and "gone.data" in seen["message"]
    seen.that(told, gone, remembered, stage="raised")

    def of_something_large(measure):
        """Measure a model with an external tensor of 40 gigabytes, of which only the first bytes are there."""
        with tempfile.TemporaryDirectory() as folder:
            weights = {"w": ("float32", 4, "large.data", False)}
            path = saved(folder, weights)
            model = onnx.load(path, load_external_data=False)
            model.graph.initializer[0].dims[:] = [100_000, 100_000]
            del model.graph.initializer[0].external_data[:]
            for key, value in (("length", 40_000_000_000), ("offset", 0), ("location", "large.data")):
                model.graph.initializer[0].external_data.add(key=key, value=str(value))
            Path(path).write_bytes(model.SerializeToString())
            with noting_events() as events:
                came = plainly(measure(path))
            return {"file": os.path.getsize(path), "came": came} | was_read(events, folder, weights)

    test.hidden("an external file of 40 gigabytes; its entries are length, offset, location")
    seen = observe_scenario(of_something_large, onnx_size)
    first_entry = (
        "You took an entry of external_data for the location by its place. The entries may come in any order: look for "
        "the one whose key is location."
    )
    seen.expecting(
        mistake(first_entry, raises="FileNotFoundError.*40000000000"),
        mistake(first_entry, when=lambda seen: "40000000000" in seen["came"]["files"]),
    )
    judge(seen, 40_000_000_000, ["large.data", "model.onnx"], inside=0)
    ### END HIDDEN TESTS
