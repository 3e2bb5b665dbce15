"""Another camera: where points of the target's image would be in the source's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

LEARNING_RATE_SCALE = 3.0  # times the optimiser's steps: the parameters are few and have far to go
NEAREST = 0.2  # smallest denominator: points must not pass behind the camera


class CameraHomography(nn.Module):
    """A projective map of the plane, learned.

    p -> (A p + b) / (1 + c . p) with eight parameters, at first the identity. By such a map the images of a
    plane differ in two cameras, wherever these stand (Hartley and Zisserman 2004), and what a robot handles
    mostly stands on one.

    >>> CameraHomography()(torch.tensor([[0.5, -0.2, 0.1, 0.0]]))
    tensor([[ 0.5000, -0.2000,  0.1000,  0.0000]], grad_fn=<ViewBackward0>)
    """

    def __init__(self) -> None:
        super().__init__()
        # Offset from the identity: A, b, c. Checkpoints have it under this name.
        self.departure = nn.Parameter(torch.zeros(8))

    def distortion(self) -> Tensor:
        """How far the map is from a shift and turn alone: squared stretch, shear, scaling and tilt."""
        offset = LEARNING_RATE_SCALE * self.departure
        stretch, shear = offset[0] - offset[3], offset[1] + offset[2]
        along, across = 2 + offset[0] + offset[3], offset[2] - offset[1]  # twice the scaled turn
        scaling = torch.sqrt(along.square() + across.square()) - 2
        return stretch.square() + shear.square() + scaling.square() + offset[6:].square().sum()

    def forward(self, points: Tensor, of_source: Tensor | None = None) -> Tensor:
        """Points (N, 2K) as `SpatialSoftmax` has them, moved; rows of the source (N,) stay as they are."""
        offset = LEARNING_RATE_SCALE * self.departure
        turn, shift, tilt = offset[:4].view(2, 2), offset[4:6], offset[6:]
        places = points.view(len(points), -1, 2)
        scale = (1 + places @ tilt).clamp(min=NEAREST).unsqueeze(-1)
        moved = ((places + places @ turn.T + shift) / scale).flatten(1)
        return moved if of_source is None else torch.where(of_source[:, None], points, moved)
