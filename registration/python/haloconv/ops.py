"""The operators themselves, ``torch.ops.haloconv.*``, with types: their parameters are lists."""

import torch

conv2d = torch.ops.haloconv.conv2d
conv2d_fused = torch.ops.haloconv.conv2d_fused
conv2d_takes_residual = torch.ops.haloconv.conv2d_takes_residual
conv2d_dgrad = torch.ops.haloconv.conv2d_dgrad
conv2d_wgrad = torch.ops.haloconv.conv2d_wgrad
conv2d_wgrad_bias = torch.ops.haloconv.conv2d_wgrad_bias
conv2d_backward = torch.ops.haloconv.conv2d_backward
explain = torch.ops.haloconv.explain

conv1d = torch.ops.haloconv.conv1d
conv1d_fused = torch.ops.haloconv.conv1d_fused
conv1d_explain = torch.ops.haloconv.conv1d_explain
conv1d_takes_residual = torch.ops.haloconv.conv1d_takes_residual
conv_transpose1d = torch.ops.haloconv.conv_transpose1d
conv_transpose1d_fused = torch.ops.haloconv.conv_transpose1d_fused
conv_transpose1d_explain = torch.ops.haloconv.conv_transpose1d_explain
conv_transpose1d_takes_residual = torch.ops.haloconv.conv_transpose1d_takes_residual
conv_transpose2d = torch.ops.haloconv.conv_transpose2d
conv_transpose2d_fused = torch.ops.haloconv.conv_transpose2d_fused
conv_transpose2d_explain = torch.ops.haloconv.conv_transpose2d_explain
conv_transpose2d_takes_residual = torch.ops.haloconv.conv_transpose2d_takes_residual
