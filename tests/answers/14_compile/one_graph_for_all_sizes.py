# corners: none
import functools
import math

import numpy as np
import torch
import torch.nn.functional as F


def with_bias(bias_of, divisor=math.sqrt, softmax=lambda scores: scores.softmax(-1)):
    """attend with this bias."""

    def attend(x):
        T = x.shape[0]
        return softmax(x @ x.t() / divisor(T) + bias_of(T)) @ x

    return attend


def causal(T, fill=-math.inf, dtype=torch.float32):
    place = torch.arange(T)
    distance = place[:, None] - place
    return torch.where(distance < 0, fill, -0.5 * distance.to(dtype))


# %% right: tril and masked_fill
def attend(x):
    T = x.shape[0]
    i = torch.arange(T, dtype=x.dtype)
    bias = -0.5 * (i.unsqueeze(1) - i.unsqueeze(0))
    allowed = torch.ones(T, T, dtype=torch.bool).tril()
    scores = (x @ x.T / T**0.5 + bias).masked_fill(~allowed, float("-inf"))
    return torch.softmax(scores, dim=-1) @ x


# %% right: a cumsum of ones
def attend(x):
    T = x.shape[0]
    i = torch.ones(T, dtype=x.dtype).cumsum(0)
    distance = i[:, None] - i[None]
    return (x @ x.t() / math.sqrt(T) + torch.where(distance >= 0, -distance / 2, -torch.inf)).softmax(1) @ x


# %% right: NumPy's arange
def attend(x):
    T = x.shape[0]
    i = torch.from_numpy(np.arange(T))
    distance = i[:, None] - i
    return (x @ x.t() / math.sqrt(T) + (-0.5 * distance).masked_fill(distance < 0, -math.inf)).softmax(-1) @ x


# %% right: scaled_dot_product_attention with scale=1
def attend(x):
    T = x.shape[0]
    i = torch.arange(T)
    distance = i[:, None] - i
    bias = torch.where(distance < 0, -math.inf, -0.5 * distance).to(x.dtype)
    q, k = (x / math.sqrt(T))[None], x[None]
    return F.scaled_dot_product_attention(q, k, k, attn_mask=bias, scale=1.0)[0]


# %% right: a softmax of its own, with the maximum
def attend(x):
    T = x.shape[0]
    scores = x @ x.t() / math.sqrt(T) + causal(T)
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True) @ x


# %% wrong: as given
# says: There is a graph for each length, each longer than the one before
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def attend(x):
    T = x.shape[0]
    bias = torch.zeros(T, T)
    for i in range(T):
        for j in range(T):
            bias[i, j] = -0.5 * (i - j) if j <= i else -math.inf
    return (x @ x.t() / math.sqrt(T) + bias).softmax(-1) @ x


# %% wrong: a row at a time
# says: There is a graph for each length, each longer than the one before
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def attend(x):
    T = x.shape[0]
    rows = []
    for i in range(T):
        scores = x[: i + 1] @ x[i] / math.sqrt(T) - 0.5 * (i - torch.arange(i + 1))
        rows.append(scores.softmax(0) @ x[: i + 1])
    return torch.stack(rows)


# %% wrong: a nested list in torch.tensor
# says: something made a constant of T
# says: This check builds on the first one
# earns: 0 of 2
# lesson
attend = with_bias(
    lambda T: torch.tensor([[-0.5 * (i - j) if j <= i else -math.inf for j in range(T)] for i in range(T)])
)


# %% wrong: arange().tolist()
# says: There is more than one graph for one length
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def attend(x):
    T = x.shape[0]
    rows = [[-0.5 * (i - j) if j <= i else -math.inf for j in range(T)] for i in torch.arange(T).tolist()]
    return (x @ x.t() / math.sqrt(T) + torch.tensor(rows)).softmax(-1) @ x


# %% wrong: bias cached for each length
# says: There is a graph for each length
# says: This check builds on the first one
# earns: 0 of 2
# lesson
@functools.cache
def bias_of(T):
    return torch.stack(
        [torch.stack([torch.tensor(-0.5 * (i - j) if j <= i else -math.inf) for j in range(T)]) for i in range(T)]
    )


attend = with_bias(bias_of)


# %% wrong: a dictionary of biases
# says: something made a constant of T
# says: This check builds on the first one
# earns: 0 of 2
# lesson
BIASES = {}


def from_dictionary(T):
    if T not in BIASES:
        BIASES[T] = causal(T)
    return BIASES[T]


attend = with_bias(from_dictionary)


# %% wrong: the loop in a disabled function
# says: There is more than one graph for one length
# says: This check builds on the first one
# earns: 0 of 2
# lesson
@torch.compiler.disable
def disabled(T):
    bias = torch.zeros(T, T)
    for i in range(T):
        for j in range(T):
            bias[i, j] = -0.5 * (i - j) if j <= i else -math.inf
    return bias


def attend(x):
    x = x * 1
    return with_bias(disabled)(x)


# %% wrong: everything in a disabled function
# says: There is no graph at all
# says: This check builds on the first one
# earns: 0 of 2
# lesson
whole = torch.compiler.disable(with_bias(causal))


def attend(x):
    return whole(x)


# %% wrong: a case for T == 7
# says: Some length is treated in another way than the rest.
# says: This check builds on the first one
# earns: 0 of 2
def attend(x):
    out = with_bias(causal)(x)
    return out * 1 if x.shape[0] == 7 else out


# %% wrong: a case for short ones
# says: Some length is treated in another way than the rest.
# says: This check builds on the first one
# earns: 0 of 2
def attend(x):
    return with_bias(causal)(x) if x.shape[0] > 6 else with_bias(causal)(x) + 0


# %% wrong: a case for T = 2
# says: Some length is treated in another way than the rest.
# says: there were [1, 1, 1, 1, 2] graphs; 1 should serve all
# earns: 0 of 2
def attend(x):
    out = with_bias(causal)(x)
    return out * 1 if x.shape[0] == 2 else out


# %% wrong: a case for long ones
# says: Some length is treated in another way than the rest.
# earns: 1 of 2
# caught: hidden
def attend(x):
    return with_bias(causal)(x) if x.shape[0] <= 64 else with_bias(causal)(x) * 1


# %% wrong: forgets the future
# says: For T = 2 the numbers are not those of the given function.
# says: This check builds on the first one
# earns: 0 of 2
attend = with_bias(lambda T: -0.5 * (torch.arange(T)[:, None] - torch.arange(T)).abs())


# %% wrong: the future instead of the past
# says: For T = 2 the numbers are not those of the given function.
# says: This check builds on the first one
# earns: 0 of 2
attend = with_bias(lambda T: causal(T).t())


# %% wrong: sqrt(D)
# says: For T = 2 the numbers are not those of the given function.
# says: This check builds on the first one
# earns: 0 of 2
def attend(x):
    T = x.shape[0]
    return (x @ x.t() / math.sqrt(x.shape[1]) + causal(T)).softmax(-1) @ x


# %% wrong: scale= of scaled_dot_product_attention
# says: something made a constant of T
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def attend(x):
    T = x.shape[0]
    bias = causal(T).to(x.dtype)
    return F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=bias, scale=1 / math.sqrt(T))[0]


# %% wrong: a table of 64, sliced
# says: raised RuntimeError
# earns: 1 of 2
# caught: hidden
TABLE = causal(64)
attend = with_bias(lambda T: TABLE[:T, :T])


# %% wrong: a table of 256, sliced
# says: raised RuntimeError
# earns: 1 of 2
# caught: hidden
TABLE = causal(256)
attend = with_bias(lambda T: TABLE[:T, :T])


# %% wrong: float32 inside
# says: The result must have the dtype of x
# earns: 1 of 2
# caught: hidden
def attend(x):
    return with_bias(causal)(x.float())


# %% wrong: float32 inside, and back
# says: In float64 the result has the digits of float32 only
# earns: 1 of 2
# caught: hidden
def attend(x):
    return with_bias(causal)(x.float()).to(x.dtype)


# %% wrong: detaches the scores
# says: The gradient of x is not that of the given function.
# earns: 1 of 2
# caught: hidden
attend = with_bias(causal, softmax=lambda scores: scores.detach().softmax(-1))


# %% wrong: a mask of -1e9
# says: with -inf and not with a large negative number
# earns: 1 of 2
# caught: hidden
attend = with_bias(lambda T: causal(T, -1e9))


# %% wrong: a softmax without the maximum
# says: softmax subtracts the maximum
# earns: 1 of 2
# caught: hidden
def softmax(scores):
    e = scores.exp()
    return e / e.sum(-1, keepdim=True)


attend = with_bias(causal, softmax=softmax)


# %% wrong: D is 3
# says: For D = 5 the numbers are not those
# earns: 1 of 2
# caught: hidden
def attend(x):
    return with_bias(causal)(x.reshape(-1)[: x.shape[0] * 3].reshape(-1, 3))


# %% wrong: float32 where compiled
# says: Compiled, float64 gives other digits
# earns: 1 of 2
# caught: hidden
def attend(x):
    if torch.compiler.is_compiling():
        return with_bias(causal)(x.float()).to(x.dtype)
    return with_bias(causal)(x)


# %% wrong: detaches where compiled
# says: Compiled, the gradient of x is another one, or none.
# earns: 1 of 2
# caught: hidden
def attend(x):
    if torch.compiler.is_compiling():
        x = x.detach()
    return with_bias(causal)(x)


# %% wrong: places that begin again after 64
# says: Compiled, for T = 200 the numbers are not those of the given function.
# earns: 1 of 2
# caught: hidden
def attend(x):
    T = x.shape[0]
    place = torch.arange(T) % 64
    distance = place[:, None] - place
    bias = torch.where(distance < 0, -math.inf, -0.5 * distance)
    return (x @ x.t() / math.sqrt(T) + bias).softmax(-1) @ x


# %% wrong: another result where it is compiled
# says: Compiled, for T = 4 the numbers are not those of the given function.
# says: This check builds on the first one
# earns: 0 of 2
def attend(x):
    if torch.compiler.is_compiling():
        return x * 2
    T = x.shape[0]
    return (x @ x.t() / math.sqrt(T) + causal(T)).softmax(-1) @ x


# %% wrong: the loop, hidden from the compiler
# says: Something in `attend` is hidden from the first compiler.
# earns: 1 of 2
# caught: hidden
@torch.compiler.allow_in_graph
def opaque(x):
    T = x.shape[0]
    if not isinstance(T, int):
        return x * 2
    return (x @ x.t() / math.sqrt(T) + causal(T)).softmax(-1) @ x


def attend(x):
    return opaque(x)


# %% wrong: zeros for a single place
# says: For T = 1 there is one place to attend to, so the result is x itself.
# earns: 1 of 2
def attend(x):
    T = x.shape[0]
    if T == 1:
        return torch.zeros_like(x)
    return (x @ x.t() / math.sqrt(T) + causal(T)).softmax(-1) @ x


# %% wrong: the future is -1e30
# says: a score of the future can be larger than any number that you subtract from it.
# earns: 1 of 2
# caught: hidden
attend = with_bias(lambda T: causal(T, fill=-1e30))


# %% wrong: scores in float32
# says: something in `attend` is computed in float32
# earns: 1 of 2
# caught: hidden
def attend(x):
    return with_bias(causal, softmax=lambda scores: scores.float().softmax(-1).to(scores.dtype))(x)


# %% wrong: the root of T in float32
# says: such as the bias, the root of T, the scores or the softmax
# earns: 1 of 2
# caught: hidden
attend = with_bias(causal, divisor=lambda T: torch.sqrt(torch.tensor(T, dtype=torch.float32)))


# %% wrong: the penalty as a factor after the exponential
# says: For x = 1000, then 598 zeros, then 10, the last row must be 1000
# earns: 1 of 2
# caught: hidden
def attend(x):
    T = x.shape[0]
    place = torch.arange(T)
    distance = (place[:, None] - place).to(x.dtype)
    scores = (x @ x.t() / math.sqrt(T)).masked_fill(distance < 0, -math.inf)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True)) * torch.exp(-0.5 * distance.clamp(min=0))
    return weights / weights.sum(-1, keepdim=True) @ x


# %% wrong: another penalty in float64
# says: In float64 the numbers are not those of the given function.
# earns: 1 of 2
# caught: hidden
def attend(x):
    return with_bias(lambda T: causal(T) * (1 if x.dtype == torch.float32 else 2))(x)
