#!/usr/bin/env bash
# Runs the Python half of the denoiser, then builds the C++ half against the installed library and
# runs it on what the Python half wrote; both must find the same PSNR. Needs scripts/build.sh first.
#   scripts/denoiser.sh OUT MIN_GAIN [arguments of denoise.py]
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"
out=$1 min_gain=$2
shift 2
mkdir -p "$out"
need_modules numpy sklearn PIL

say "examples/python: train, script and save a denoiser"
PYTHONPATH=registration/python "$HALOCONV_PYTHON" examples/python/denoise.py --out "$out" "$@" |
  tee "$out/python.txt"

say "examples/cpp: build against build/install, and run the saved model"
torch_prefix=$("$HALOCONV_PYTHON" -c 'import torch; print(torch.utils.cmake_prefix_path)')
cmake -S examples/cpp -B build/examples -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$haloconv_root/build/install;$torch_prefix" >/dev/null
cmake --build build/examples --target denoise
build/examples/denoise "$out/denoiser.pt" "$out/photograph.pt" | tee "$out/cpp.txt"

"$HALOCONV_PYTHON" scripts/check_psnr.py "$out/python.txt" "$out/cpp.txt" "$min_gain"
