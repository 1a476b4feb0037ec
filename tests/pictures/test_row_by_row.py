"""What backward delivers for a vector."""

from functools import partial

import pytest
import torch

from tests.pictures import drawn
from torchkata.pictures import row_by_row


@pytest.mark.parametrize("v", [[1.0, 0.0], [0.0, 1.0], [1.0, 10.0], [0.0, 0.0]])
def test_what_backward_delivers(v):
    w = torch.tensor([2.0, 3.0, 4.0], requires_grad=True)
    y = torch.stack([w[0] * w[1], w[1] + w[2] ** 2])
    jacobian = [torch.autograd.grad(y, w, torch.eye(2)[i], retain_graph=True)[0].tolist() for i in range(2)]
    state = row_by_row.vjp_state(jacobian, v)
    y.backward(torch.tensor(v))
    assert list(state.delivered) == w.grad.tolist()
    assert state.rows == tuple(i for i in range(2) if v[i])


def test_a_vector_of_another_length():
    with pytest.raises(ValueError, match="one number for each of the 2 rows"):
        row_by_row.vjp_state([[1.0], [2.0]], [1.0])


GALLERY = drawn.Gallery(
    {
        "one row": partial(row_by_row.row_by_row, [[3.0, 2.0, 0.0], [0.0, 1.0, 8.0]], [0.0, 1.0]),
        "a mix of rows": partial(row_by_row.row_by_row, [[3.0, 2.0], [0.0, 1.0], [-2.0, 1.5]], [1.0, 0.0, 10.0]),
    }
)


class TestLook(drawn.Look):
    gallery = GALLERY
    in_boxes = True
