"""Many of the wrong answers differ from a right one in a method or two: they inherit the others from it."""

# corners: zeros

import heapq
import itertools

import torch as library


class Base:
    def __init__(self, data, parents=()):
        self.data = data
        self.grad = 0.0
        self.parents = parents
        self.g = 0.0

    @staticmethod
    def wrap(x):
        return x if isinstance(x, Value) else Value(x)

    def __add__(self, o):
        o = Value.wrap(o)
        return Value(self.data + o.data, ((self, 1.0), (o, 1.0)))

    def __mul__(self, o):
        o = Value.wrap(o)
        return Value(self.data * o.data, ((self, o.data), (o, self.data)))

    def __pow__(self, n):
        return Value(self.data**n, ((self, n * self.data ** (n - 1)),))

    def __neg__(self):
        return self * -1

    def __sub__(self, o):
        return self + (-Value.wrap(o))

    def __truediv__(self, o):
        return self * Value.wrap(o) ** -1

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, o):
        return Value.wrap(o) - self

    def __rtruediv__(self, o):
        return Value.wrap(o) / self

    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, ((self, 1 - t**2),))

    def exp(self):
        e = math.exp(self.data)
        return Value(e, ((self, e),))

    def relu(self):
        return Value(max(0.0, self.data), ((self, 1.0 if self.data > 0 else 0.0),))

    def order(self):
        """Inputs before results."""
        done, seen, stack = [], set(), [(self, 0)]
        while stack:
            node, k = stack.pop()
            if k == 0 and node in seen:
                continue
            seen.add(node)
            if k < len(node.parents):
                stack.append((node, k + 1))
                stack.append((node.parents[k][0], 0))
            else:
                done.append(node)
        return done

    def backward(self):
        nodes = self.order()
        for node in nodes:
            node.g = 0.0
        self.g = 1.0
        for node in reversed(nodes):
            if not node.parents:
                node.grad += node.g
            for p, slope in node.parents:
                p.g += slope * node.g


# %% right: intermediate gradients reset at the start
class Value(Base):
    pass


# %% right: closures per operation, a ready-list (count of users)
class Value:
    def __init__(self, data):
        self.data, self.grad = float(data), 0.0
        self._ins, self._push = [], lambda g: []

    def _make(data, ins, push):
        v = Value(data)
        v._ins, v._push = ins, push
        return v

    def __add__(a, b):
        b = b if isinstance(b, Value) else Value(b)
        return Value._make(a.data + b.data, [a, b], lambda g: [g, g])

    __radd__ = __add__

    def __mul__(a, b):
        b = b if isinstance(b, Value) else Value(b)
        return Value._make(a.data * b.data, [a, b], lambda g: [g * b.data, g * a.data])

    __rmul__ = __mul__

    def __neg__(a):
        return Value._make(-a.data, [a], lambda g: [-g])

    def __sub__(a, b):
        return a + -b

    def __rsub__(a, b):
        return b + -a

    def __pow__(a, n):
        return Value._make(a.data**n, [a], lambda g: [g * n * a.data ** (n - 1)])

    def __truediv__(a, b):
        return a * b**-1

    def __rtruediv__(a, b):
        return b * a**-1

    def tanh(a):
        t = math.tanh(a.data)
        return Value._make(t, [a], lambda g: [g * (1 - t * t)])

    def exp(a):
        e = math.exp(a.data)
        return Value._make(e, [a], lambda g: [g * e])

    def relu(a):
        return Value._make(a.data if a.data > 0 else 0.0, [a], lambda g: [g if a.data > 0 else 0.0])

    def backward(self):
        users, stack = {self: 0}, [self]
        while stack:
            for v in stack.pop()._ins:
                if v not in users:
                    users[v] = 0
                    stack.append(v)
                users[v] += 1
        g, ready = {v: 0.0 for v in users}, [self]
        g[self] = 1.0
        while ready:
            node = ready.pop()
            if not node._ins:
                node.grad += g[node]
            for v, more in zip(node._ins, node._push(g[node])):
                g[v] += more
                users[v] -= 1
                if users[v] == 0:
                    ready.append(v)


# %% right: a tape in creation order, walked backwards
clock = [0]


class Value(Base):
    def __init__(self, data, parents=()):
        self.data = data
        self.grad = 0.0
        self.parents = parents
        clock[0] += 1
        self.number = clock[0]

    def order(self):
        """Inputs before results."""
        seen, stack = {self}, [self]
        while stack:
            for p, _ in stack.pop().parents:
                if p not in seen:
                    seen.add(p)
                    stack.append(p)
        return sorted(seen, key=lambda node: node.number)

    def backward(self):
        g = {self: 1.0}
        for node in reversed(self.order()):
            for p, slope in node.parents:
                g[p] = g.get(p, 0.0) + slope * g[node]
            if not node.parents:
                node.grad += g[node]


# %% right: adds up in intermediate results too
class Value(Base):
    def backward(self):
        nodes = self.order()
        here = dict.fromkeys(nodes, 0.0)
        here[self] = 1.0
        for node in reversed(nodes):
            node.grad += here[node]
            for p, slope in node.parents:
                here[p] += slope * here[node]


# %% right: whole numbers in data stay whole
class Value(Base):
    def __init__(self, data, parents=()):
        self.data = data + 0
        self.grad = 0.0
        self.parents = parents
        self.g = 0.0


# %% right: forward mode: every result carries its derivatives by all leaves
class Value:
    def __init__(self, data, slopes=None):
        self.data, self.grad = data, 0.0
        self.slopes = {self: 1.0} if slopes is None else slopes

    def _of(data, *pairs):
        slopes = {}
        for value, slope in pairs:
            for leaf, s in value.slopes.items() if isinstance(value, Value) else ():
                slopes[leaf] = slopes.get(leaf, 0.0) + slope * s
        return Value(data, slopes)

    def __add__(a, b):
        return Value._of(a.data + _number(b), (a, 1.0), (b, 1.0))

    def __mul__(a, b):
        return Value._of(a.data * _number(b), (a, _number(b)), (b, a.data))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(a):
        return a * -1

    def __sub__(a, b):
        return a + b * -1

    def __rsub__(a, b):
        return a * -1 + b

    def __pow__(a, n):
        return Value._of(a.data**n, (a, n * a.data ** (n - 1)))

    def __truediv__(a, b):
        return a * b**-1

    def __rtruediv__(a, b):
        return a**-1 * b

    def tanh(a):
        return Value._of(math.tanh(a.data), (a, 1 - math.tanh(a.data) ** 2))

    def exp(a):
        return Value._of(math.exp(a.data), (a, math.exp(a.data)))

    def relu(a):
        return Value._of(max(a.data, 0.0), (a, 1.0 * (a.data > 0)))

    def backward(self):
        for leaf, slope in self.slopes.items():
            leaf.grad += slope


def _number(x):
    return x.data if isinstance(x, Value) else x


# %% wrong: wraps a torch tensor
# says: The class must do the work itself: torch is used inside it.
# earns: 1 of 3
class Value:
    def __init__(self, data):
        self.t = (
            data if isinstance(data, Tensor) else torch.tensor(float(data), dtype=torch.float64, requires_grad=True)
        )

    @property
    def data(self):
        return self.t.item()

    @property
    def grad(self):
        return 0.0 if self.t.grad is None else self.t.grad.item()

    def t_of(x):
        return x.t if isinstance(x, Value) else x

    def __add__(a, b):
        return Value(a.t + Value.t_of(b))

    __radd__ = __add__

    def __mul__(a, b):
        return Value(a.t * Value.t_of(b))

    __rmul__ = __mul__

    def __sub__(a, b):
        return Value(a.t - Value.t_of(b))

    def __rsub__(a, b):
        return Value(b - a.t)

    def __truediv__(a, b):
        return Value(a.t / Value.t_of(b))

    def __rtruediv__(a, b):
        return Value(b / a.t)

    def __neg__(a):
        return Value(-a.t)

    def __pow__(a, n):
        return Value(a.t**n)

    def tanh(a):
        return Value(a.t.tanh())

    def exp(a):
        return Value(a.t.exp())

    def relu(a):
        return Value(a.t.relu())

    def backward(a):
        return a.t.backward(retain_graph=True)


# %% wrong: numpy functions, turned into floats
# says: The class must do the work itself: numpy is used inside it.
# earns: 1 of 3
class Value(Base):
    def exp(self):
        import numpy as np

        e = float(np.exp(self.data))
        return Value(e, ((self, e),))


# %% wrong: numpy numbers
# says: The class must compute with Python floats, in data and in grad
# says: The derivatives of longer expressions differ
# says: The class must do the work itself
# earns: 0 of 3
np = __import__("numpy")


class Value(Base):
    def exp(self):
        e = np.exp(self.data)
        return Value(e, ((self, e),))


# %% wrong: p.grad = ... in place of +=
# says: A value that is used twice must receive the sum of both contributions: you overwrite its gradient (=) instead of adding (+=).
# says: The derivative of (a / b - a.exp()) ** 2 is wrong
# says: The first backward is wrong already
# earns: 0 of 3
# lesson
class Value(Base):
    def backward(self):
        nodes = self.order()
        for node in nodes:
            node.g = 0.0
        self.g = 1.0
        for node in reversed(nodes):
            if not node.parents:
                node.grad += node.g
            for p, slope in node.parents:
                p.g = slope * node.g


# %% wrong: adds the local derivative only
# says: The incoming gradient is missing: each local derivative is multiplied by the gradient of the result.
# says: The incoming gradient is missing
# says: The first backward is wrong already
# earns: 0 of 3
class Value(Base):
    def backward(self):
        nodes = self.order()
        for node in nodes:
            node.g = 0.0
        self.g = 1.0
        for node in reversed(nodes):
            if not node.parents:
                node.grad += node.g
            for p, slope in node.parents:
                p.g += slope


# %% wrong: processes nodes breadth first
# says: A node passed its gradient on before all of its users had reported: process results before their inputs (topological order).
# earns: 2 of 3
# lesson
class Value(Base):
    def backward(self):
        g, queue, seen = {self: 1.0}, [self], {self}
        for node in queue:
            if not node.parents:
                continue
            for p, slope in node.parents:
                g[p] = g.get(p, 0.0) + slope * g[node]
                if p not in seen:
                    seen.add(p)
                    queue.append(p)
        for node in queue:
            if not node.parents:
                node.grad += g[node]


# %% wrong: walks every path separately
# says: The work explodes: 30 times v = v + v has a billion paths but 30 nodes. Visit every node once.
# earns: 2 of 3
# lesson
class Value(Base):
    def backward(self, g=1.0):
        if not self.parents:
            self.grad += g
        for p, slope in self.parents:
            p.backward(g * slope)


# %% wrong: recursive topological sort
# says: Recursion stops at about 1000 levels: build the order with a list.
# earns: 2 of 3
# caught: hidden
class Value(Base):
    def backward(self):
        nodes, seen = [], set()

        def visit(node):
            if node not in seen:
                seen.add(node)
                for p, _ in node.parents:
                    visit(p)
                nodes.append(node)

        visit(self)
        g = dict.fromkeys(nodes, 0.0)
        g[self] = 1.0
        for node in reversed(nodes):
            if not node.parents:
                node.grad += g[node]
            for p, slope in node.parents:
                g[p] += slope * g[node]


# %% wrong: leaves gradients in intermediate results between calls
# says: A second backward goes wrong: gradients left over in intermediate results are counted again.
# earns: 2 of 3
# lesson
class Value(Base):
    def backward(self):
        self.grad = 1.0
        for node in reversed(self.order()):
            for p, slope in node.parents:
                p.grad += slope * node.grad


# %% wrong: clears all gradients at the start of backward
# says: Two backward calls must add up in the leaves' .grad; yours start again.
# earns: 2 of 3
class Value(Base):
    def backward(self):
        for node in self.order():
            node.grad = 0.0
        self.grad = 1.0
        for node in reversed(self.order()):
            for p, slope in node.parents:
                p.grad += slope * node.grad


# %% wrong: no __radd__ / __rmul__
# says: Python numbers on the left side need __radd__, __rmul__, __rsub__, __rtruediv__: your code raised TypeError
# earns: 2 of 3
class Value:
    def __init__(self, data, parents=()):
        self.data = data
        self.grad = 0.0
        self.parents = parents
        self.g = 0.0

    @staticmethod
    def wrap(x):
        return x if isinstance(x, Value) else Value(x)

    def __add__(self, o):
        o = Value.wrap(o)
        return Value(self.data + o.data, ((self, 1.0), (o, 1.0)))

    def __mul__(self, o):
        o = Value.wrap(o)
        return Value(self.data * o.data, ((self, o.data), (o, self.data)))

    def __pow__(self, n):
        return Value(self.data**n, ((self, n * self.data ** (n - 1)),))

    def __neg__(self):
        return self * -1

    def __sub__(self, o):
        return self + (-Value.wrap(o))

    def __truediv__(self, o):
        return self * Value.wrap(o) ** -1

    def __rsub__(self, o):
        return Value.wrap(o) - self

    def __rtruediv__(self, o):
        return Value.wrap(o) / self

    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, ((self, 1 - t**2),))

    def exp(self):
        e = math.exp(self.data)
        return Value(e, ((self, e),))

    def relu(self):
        return Value(max(0.0, self.data), ((self, 1.0 if self.data > 0 else 0.0),))

    def order(self):
        """Inputs before results."""
        done, seen, stack = [], set(), [(self, 0)]
        while stack:
            node, k = stack.pop()
            if k == 0 and node in seen:
                continue
            seen.add(node)
            if k < len(node.parents):
                stack.append((node, k + 1))
                stack.append((node.parents[k][0], 0))
            else:
                done.append(node)
        return done

    def backward(self):
        nodes = self.order()
        for node in nodes:
            node.g = 0.0
        self.g = 1.0
        for node in reversed(nodes):
            if not node.parents:
                node.grad += node.g
            for p, slope in node.parents:
                p.g += slope * node.g


# %% wrong: __rsub__ = __sub__
# says: Python numbers on the left side need __radd__, __rmul__, __rsub__, __rtruediv__; 2 - a is not a - 2
# earns: 2 of 3
class Value:
    def __init__(self, data, parents=()):
        self.data = data
        self.grad = 0.0
        self.parents = parents
        self.g = 0.0

    @staticmethod
    def wrap(x):
        return x if isinstance(x, Value) else Value(x)

    def __add__(self, o):
        o = Value.wrap(o)
        return Value(self.data + o.data, ((self, 1.0), (o, 1.0)))

    def __mul__(self, o):
        o = Value.wrap(o)
        return Value(self.data * o.data, ((self, o.data), (o, self.data)))

    def __pow__(self, n):
        return Value(self.data**n, ((self, n * self.data ** (n - 1)),))

    def __neg__(self):
        return self * -1

    def __sub__(self, o):
        return self + (-Value.wrap(o))

    def __truediv__(self, o):
        return self * Value.wrap(o) ** -1

    __radd__ = __add__
    __rmul__ = __mul__

    __rsub__ = __sub__

    def __rtruediv__(self, o):
        return Value.wrap(o) / self

    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, ((self, 1 - t**2),))

    def exp(self):
        e = math.exp(self.data)
        return Value(e, ((self, e),))

    def relu(self):
        return Value(max(0.0, self.data), ((self, 1.0 if self.data > 0 else 0.0),))

    def order(self):
        """Inputs before results."""
        done, seen, stack = [], set(), [(self, 0)]
        while stack:
            node, k = stack.pop()
            if k == 0 and node in seen:
                continue
            seen.add(node)
            if k < len(node.parents):
                stack.append((node, k + 1))
                stack.append((node.parents[k][0], 0))
            else:
                done.append(node)
        return done

    def backward(self):
        nodes = self.order()
        for node in nodes:
            node.g = 0.0
        self.g = 1.0
        for node in reversed(nodes):
            if not node.parents:
                node.grad += node.g
            for p, slope in node.parents:
                p.g += slope * node.g


# %% wrong: numbers on the right are not wrapped
# says: A Python number on the right has no .data
# earns: 0 of 3
class Value(Base):
    def __add__(self, o):
        return Value(self.data + o.data, ((self, 1.0), (o, 1.0)))


# %% wrong: relu derivative 1 at 0
# says: The derivative of relu at 0 is 0, as in torch.
# earns: 2 of 3
# caught: hidden
class Value(Base):
    def relu(self):
        return Value(max(0.0, self.data), ((self, 1.0 if self.data >= 0 else 0.0),))


# %% wrong: 1 - tanh in place of 1 - tanh^2
# says: The derivative of a.tanh() is wrong.
# says: The derivatives of longer expressions differ
# earns: 0 of 3
class Value(Base):
    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, ((self, 1 - t),))


# %% wrong: the derivative of the power without its factor
# says: The derivative of a ** 3 is wrong.
# says: The derivatives of longer expressions differ
# says: The derivative of 1 / a is wrong
# earns: 0 of 3
class Value(Base):
    def __pow__(self, n):
        return Value(self.data**n, ((self, self.data ** (n - 1)),))


# %% wrong: divides by the derivative's sign
# says: The derivative of a / b is wrong.
# says: The derivatives of longer expressions differ
# says: The derivative of 1 / a is wrong
# earns: 0 of 3
class Value(Base):
    def __truediv__(self, o):
        o = Value.wrap(o)
        return Value(self.data / o.data, ((self, 1 / o.data), (o, self.data / o.data**2)))


# %% wrong: leaky relu
# says: The forward value of b.relu() is wrong
# earns: 2 of 3
class Value(Base):
    def relu(self):
        return Value(max(0.01 * self.data, self.data), ((self, 1.0 if self.data > 0 else 0.0),))


# %% wrong: starts with gradient 0
# says: No gradient arrives: backward starts with d self / d self = 1.
# says: The first backward is wrong already
# earns: 0 of 3
class Value(Base):
    def backward(self):
        nodes = self.order()
        for node in nodes:
            node.g = 0.0
        self.g = 0.0
        for node in reversed(nodes):
            if not node.parents:
                node.grad += node.g
            for p, slope in node.parents:
                p.g += slope * node.g


# %% wrong: a leaf's own backward does nothing
# says: A fresh leaf has its number in data and 0.0 in grad; its own backward adds 1 to its grad.
# earns: 2 of 3
# caught: hidden
class Value(Base):
    def backward(self):
        if not self.parents:
            return
        nodes = self.order()
        for node in nodes:
            node.g = 0.0
        self.g = 1.0
        for node in reversed(nodes):
            if not node.parents:
                node.grad += node.g
            for p, slope in node.parents:
                p.g += slope * node.g


# %% wrong: grad is None at first
# says: The class must compute with Python floats, in data and in grad
# says: A fresh leaf has its number
# earns: 0 of 3
class Value(Base):
    def __init__(self, data, parents=()):
        self.data = data
        self.grad = None
        self.parents = parents
        self.g = 0.0

    def backward(self):
        nodes = self.order()
        for node in nodes:
            node.g = 0.0
        self.g = 1.0
        for node in reversed(nodes):
            if not node.parents:
                node.grad = (node.grad or 0.0) + node.g
            for p, slope in node.parents:
                p.g += slope * node.g


# %% wrong: no operators yet
# says: A method is missing: your code raised TypeError: unsupported operand type(s) for +: 'Value' and 'Value'. `a + b` needs __add__
# says: A method is missing
# earns: 0 of 3
class Value:
    def __init__(self, data):
        self.data, self.grad = data, 0.0


# %% right: a heap of creation numbers
numbers = itertools.count()


class Value(Base):
    def __init__(self, data, parents=()):
        super().__init__(data, parents)
        self.number = next(numbers)

    def backward(self):
        found, heap = {self.number: 1.0}, [(-self.number, self)]
        while heap:
            minus_number, v = heapq.heappop(heap)
            gradient = found.pop(-minus_number)
            if not v.parents:
                v.grad += gradient
            for u, slope in v.parents:
                if u.number not in found:
                    found[u.number] = 0.0
                    heapq.heappush(heap, (-u.number, u))
                found[u.number] += gradient * slope


# %% wrong: the micrograd of the well-known lecture, made for one call
# says: A second backward goes wrong: gradients left over in intermediate results are counted again.
# earns: 2 of 3
class Value(Base):
    def backward(self):
        order, visited = [], set()

        def build(v):
            if v not in visited:
                visited.add(v)
                for u, _ in v.parents:
                    build(u)
                order.append(v)

        build(self)
        self.grad = 1
        for v in reversed(order):
            for u, slope in v.parents:
                u.grad += slope * v.grad


# %% wrong: torch behind a function of one's own
# says: The class must do the work itself: torch is used inside it.
# earns: 1 of 3
def tanh_of(x):
    return library.tensor(x, dtype=library.float64).tanh().item()


class Value(Base):
    def tanh(self):
        t = tanh_of(self.data)
        return Value(t, ((self, 1 - t * t),))

    def backward(self):
        order, seen, waiting = [], set(), [(self, False)]
        while waiting:
            v, done = waiting.pop()
            if done:
                order.append(v)
            elif v not in seen:
                seen.add(v)
                waiting += [(v, True), *((u, False) for u, _ in v.parents)]
        found = {self: 1.0}
        for v in reversed(order):
            if not v.parents:
                v.grad += found[v]
            for u, slope in v.parents:
                found[u] = found.get(u, 0.0) + found[v] * slope


# %% wrong: the slope of a power by division
# says: as n * x ** n / x it divides by 0 where x is 0
# earns: 2 of 3
# corner: zeros
# caught: hidden
class Value(Base):
    def __pow__(self, n):
        p = self.data**n
        return Value(p, ((self, n * p / self.data),))


# %% wrong: tanh by exponentials
# says: overflows where tanh is already 1
# earns: 2 of 3
# caught: hidden
class Value(Base):
    def tanh(self):
        e = math.exp(2 * self.data)
        t = (e - 1) / (e + 1)
        return Value(t, ((self, 1 - t * t),))


# %% wrong: a leaf sets its own gradient
# says: each time: yours sets it to 1
# earns: 2 of 3
# caught: hidden
class Value(Base):
    def backward(self):
        if not self.parents:
            self.grad = 1.0
            return
        super().backward()


# %% wrong: values that hold 0 get no gradient
# says: A value that holds 0 is a value like any other
# earns: 2 of 3
# corner: zeros
# caught: hidden
class Value(Base):
    def backward(self):
        nodes = self.order()
        for node in nodes:
            node.g = 0.0
        self.g = 1.0
        for node in reversed(nodes):
            if not node.parents and node.data:
                node.grad += node.g
            for p, slope in node.parents:
                p.g += slope * node.g


# %% wrong: relu passes where it must not
# says: The derivative of a.relu() is wrong
# says: The derivatives of longer expressions differ
# says: The derivative of relu at 0 is 0
# earns: 0 of 3
class Value(Base):
    def relu(self):
        return Value(max(0.0, self.data), ((self, float(self.data <= 0)),))


# %% wrong: visited nodes in a list
# says: The work grows with the square of the number of nodes: to look for a node in a list
# earns: 2 of 3
# caught: hidden
class Value(Base):
    def order(self):
        done, seen, stack = [], [], [(self, 0)]
        while stack:
            node, k = stack.pop()
            if k == 0 and node in seen:
                continue
            if k == 0:
                seen.append(node)
            if k < len(node.parents):
                stack.append((node, k + 1))
                stack.append((node.parents[k][0], 0))
            else:
                done.append(node)
        return done


# %% wrong: visited nodes in a list, compared one by one
# says: The work grows with the square of the number of nodes: to look for a node in a list
# earns: 2 of 3
# caught: hidden
class Value(Base):
    def order(self):
        done, seen, stack = [], [], [(self, 0)]
        while stack:
            node, k = stack.pop()
            if k == 0 and any(node is other for other in seen):
                continue
            if k == 0:
                seen.append(node)
            if k < len(node.parents):
                stack.append((node, k + 1))
                stack.append((node.parents[k][0], 0))
            else:
                done.append(node)
        return done


# %% right: nodes found by their id
class Value(Base):
    def order(self):
        done, seen, stack = [], set(), [(self, 0)]
        while stack:
            node, k = stack.pop()
            if k == 0 and id(node) in seen:
                continue
            seen.add(id(node))
            if k < len(node.parents):
                stack.append((node, k + 1))
                stack.append((node.parents[k][0], 0))
            else:
                done.append(node)
        return done


# %% right: values are equal where their numbers are
class Value(Base):
    def __eq__(self, other):
        return isinstance(other, Value) and self.data == other.data

    __hash__ = object.__hash__


# %% wrong: a queue of values, each passed on as often as something has arrived
# says: The work explodes: a node passes on a part of its gradient, and then again, whenever more has arrived.
# earns: 2 of 3
# caught: hidden
class Value:
    def __init__(self, data, parents=()):
        self.data, self.grad, self.parents = data, 0.0, parents

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data * other.data, ((self, other.data), (other, self.data)))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -1 * other

    def __rsub__(self, other):
        return other + -self

    def __pow__(self, n):
        return Value(self.data**n, ((self, n * self.data ** (n - 1)),))

    def __truediv__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data / other.data, ((self, 1 / other.data), (other, -self.data / other.data**2)))

    def __rtruediv__(self, other):
        return Value(other) / self

    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, ((self, 1 - t * t),))

    def exp(self):
        e = math.exp(self.data)
        return Value(e, ((self, e),))

    def relu(self):
        return Value(max(self.data, 0.0), ((self, float(self.data > 0)),))

    def backward(self):
        arrived, waiting = {self: 1.0}, [self]
        while waiting:
            v = waiting.pop(0)
            gradient = arrived.pop(v)
            if not v.parents:
                v.grad += gradient
            for parent, slope in v.parents:
                if parent not in arrived:
                    arrived[parent] = 0.0
                    waiting.append(parent)
                arrived[parent] += gradient * slope


# %% wrong: a stack of values, each passed on as often as something has arrived
# says: The work explodes: a node passes on a part of its gradient, and then again, whenever more has arrived.
# earns: 2 of 3
# caught: hidden
class Value:
    def __init__(self, data, parents=()):
        self.data, self.grad, self.parents = data, 0.0, parents

    def __add__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data + other.data, ((self, 1.0), (other, 1.0)))

    def __mul__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data * other.data, ((self, other.data), (other, self.data)))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + -1 * other

    def __rsub__(self, other):
        return other + -self

    def __pow__(self, n):
        return Value(self.data**n, ((self, n * self.data ** (n - 1)),))

    def __truediv__(self, other):
        other = other if isinstance(other, Value) else Value(other)
        return Value(self.data / other.data, ((self, 1 / other.data), (other, -self.data / other.data**2)))

    def __rtruediv__(self, other):
        return Value(other) / self

    def tanh(self):
        t = math.tanh(self.data)
        return Value(t, ((self, 1 - t * t),))

    def exp(self):
        e = math.exp(self.data)
        return Value(e, ((self, e),))

    def relu(self):
        return Value(max(self.data, 0.0), ((self, float(self.data > 0)),))

    def backward(self):
        arrived, waiting = {self: 1.0}, [self]
        while waiting:
            v = waiting.pop()
            gradient = arrived.pop(v)
            if not v.parents:
                v.grad += gradient
            for parent, slope in v.parents:
                if parent not in arrived:
                    arrived[parent] = 0.0
                    waiting.append(parent)
                arrived[parent] += gradient * slope


# %% wrong: the slopes of a product exchanged
# says: The derivative of
# says: The derivatives are wrong: expected [7, 0] and [6, -4], got
# says: The first backward is wrong already: the check above says more.
# earns: 0 of 3
class Value(Base):
    def __mul__(self, o):
        o = Value.wrap(o)
        return Value(self.data * o.data, ((self, self.data), (o, o.data)))


# %% wrong: the slope of -a is 1
# says: The derivative of
# says: The derivatives of -(a * b) are wrong already: the check above says more.
# earns: 1 of 3
class Value(Base):
    def __neg__(self):
        return Value(-self.data, ((self, 1.0),))

    def __sub__(self, o):
        o = Value.wrap(o)
        return Value(self.data - o.data, ((self, 1.0), (o, -1.0)))


# %% wrong: the inputs of a sum in a dict, where v + v has one
# says: The derivatives of longer expressions differ from those of torch. Where a single operation is
# says: The derivative of v = v + v, thirty times, is 2 ** 30.
# earns: 1 of 3
class Value(Base):
    def __add__(self, o):
        o = Value.wrap(o)
        return Value(self.data + o.data, tuple({self: 1.0, o: 1.0}.items()))

    __radd__ = __add__


# %% wrong: 2 - a is 2 + a
# says: The value of
# earns: 2 of 3
class Value(Base):
    def __rsub__(self, o):
        return Value.wrap(o) + self


# %% wrong: a thousand nodes at most
# says: The derivative of a chain of additions is 1.
# earns: 2 of 3
# caught: hidden
class Value(Base):
    def order(self):
        return super().order()[-1000:]


# %% wrong: numpy behind a function of one's own, that of another one, and a default
# says: The class must do the work itself: numpy is used inside it.
# earns: 1 of 3
def exp_of(x, exp=__import__("numpy").exp):
    return float(exp(x))


def power_of_e(x):
    return exp_of(x)


class Value(Base):
    def exp(self):
        e = power_of_e(self.data)
        return Value(e, ((self, e),))
