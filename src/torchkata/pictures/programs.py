"""Run a few lines of Python, statement by statement, so that a picture can show what autograd recorded of them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FORWARD, BACKWARD, RETAIN = "forward", "backward", "retain"
Action = tuple[str, ...]


@dataclass
class Session:
    """The names that a program has bound, and where its graph begins.

    root is the tensor of the last statement that gave a tensor with a grad_fn, root_name its name ("" for none).
    passes counts the backward passes since the last forward. error is what the last action raised, in one line.
    """

    names: dict[str, object] = field(default_factory=dict)
    root: Tensor | None = None
    root_name: str = ""
    passes: int = 0
    error: str | None = None

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name; the parameters of a module m are called m.weight and so on."""
        found = {}
        for name, value in self.names.items():
            if isinstance(value, Tensor):
                found[name] = value
            elif isinstance(value, nn.Module):
                found |= {f"{name}.{inner}": parameter for inner, parameter in value.named_parameters()}
        return found


def replay(program: str, actions: Sequence[Action], gradient: str = "") -> Session:
    """Run the program and do the actions in turn, from a fixed seed; the same call gives the same result.

    An action is ("forward",), ("backward",) or ("retain", name). A second forward records the graph anew; leaves and
    modules that the program creates from nothing stay, with their .grad. gradient is the text of the vector for
    backward, such as "0, 1, 0"; empty for none. What Python or torch says when it refuses the last action becomes
    `error`.
    """
    session = Session()
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        for kind, *arguments in actions:
            session.error = _error_of(partial(_act, session, program, gradient, kind, *arguments))
    return session


def statements(program: str) -> list[ast.stmt]:
    """The statements of a program; SyntaxError when it is no Python."""
    return ast.parse(program).body


def run_statement(statement: ast.stmt, names: dict[str, object]) -> tuple[str, object]:
    """Run one statement in `names`; return the name that it bound last ("" for none) and its value."""
    space = {"torch": torch, "nn": nn, "F": F} | names
    if isinstance(statement, ast.Expr):
        value = eval(compile(ast.Expression(statement.value), "<line>", "eval", dont_inherit=True), space)
        bound = _name_of(value, names)
    else:
        exec(compile(ast.Module([statement], []), "<line>", "exec", dont_inherit=True), space)
        bound = next((name for name in reversed(_targets(statement)) if name in space), "")
        value = space.get(bound)
    names |= {name: thing for name, thing in space.items() if name not in ("torch", "nn", "F", "__builtins__")}
    return bound, value


def one_line(error: Exception | SystemExit) -> str:
    """An error's type and the first sentences of its message."""
    words = str(error).strip().partition("\n")[0].partition(" Hint:")[0]
    if len(words) > 260:
        words = words[:260].rpartition(" ")[0] + " …"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _error_of(act: Callable[[], None]) -> str | None:
    try:
        act()
    except (Exception, SystemExit) as error:  # a line may say exit()
        return one_line(error)
    return None


def _act(session: Session, program: str, gradient: str, kind: str, name: str = "") -> None:
    if kind == FORWARD:
        _forward(session, program)
    elif kind == RETAIN:
        if name in session.tensors:
            session.tensors[name].retain_grad()
    elif kind == BACKWARD:
        if session.root is None:
            raise RuntimeError("nothing is recorded: no line gives a tensor that requires grad")
        session.root.backward(_vector(gradient, session.root))
        session.passes += 1
    else:
        raise ValueError(f"{kind!r} is none of {FORWARD}, {RETAIN}, {BACKWARD}.")


def _forward(session: Session, program: str) -> None:
    before, session.names = session.names, {}
    session.root, session.root_name, session.passes = None, "", 0
    for statement in statements(program):
        kept = _created(statement, before)
        if kept:
            session.names[kept] = before[kept]
            bound, value = kept, before[kept]
        else:
            bound, value = run_statement(statement, session.names)
        if isinstance(value, Tensor) and value.grad_fn is not None:
            session.root, session.root_name = value, bound


def _created(statement: ast.stmt, before: dict[str, object]) -> str:
    """The name of a leaf or module that this statement made from nothing in an earlier forward; "" for none."""
    if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
        return ""
    name = statement.targets[0].id
    value = before.get(name)
    from_nothing = not any(isinstance(n, ast.Name) and n.id in before for n in ast.walk(statement.value))
    leaf = isinstance(value, Tensor) and value.is_leaf and value.requires_grad
    return name if from_nothing and (leaf or isinstance(value, nn.Module)) else ""


def _targets(statement: ast.stmt) -> list[str]:
    """The names that a statement binds, in the order in which they stand."""
    found = [n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [n.id for n in sorted(found, key=lambda n: (n.lineno, n.col_offset))]


def _name_of(value: object, names: dict[str, object]) -> str:
    return next((name for name, other in names.items() if other is value), "")


def _vector(text: str, root: Tensor) -> Tensor | None:
    """The gradient argument that the text spells, in the shape of root where it has as many numbers."""
    words = text.strip("[]() ").replace(",", " ").split()
    if not words:
        return None
    try:
        vector = torch.tensor([float(word) for word in words], dtype=root.dtype)
    except ValueError:
        raise ValueError(f"gradient: write numbers such as 0, 1, 0; not {text!r}.") from None
    return vector.reshape(root.shape) if vector.numel() == root.numel() else vector
