"""The operators themselves, ``torch.ops.haloconv.*``, with types: their parameters are lists."""

import torch

conv2d = torch.ops.haloconv.conv2d
conv2d_fused = torch.ops.haloconv.conv2d_fused
conv2d_dgrad = torch.ops.haloconv.conv2d_dgrad
conv2d_wgrad = torch.ops.haloconv.conv2d_wgrad
conv2d_wgrad_bias = torch.ops.haloconv.conv2d_wgrad_bias
conv2d_backward = torch.ops.haloconv.conv2d_backward
explain = torch.ops.haloconv.explain
