#!/usr/bin/env bash
# Sets up, builds, trains a denoiser in Python on haloconv::conv2d, and runs it in C++.
# Results go to out/: denoised.png shows noisy | denoised | original.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/build.sh
scripts/denoiser.sh out 7
