#!/usr/bin/env bash
# Sets up, then builds into build/ and installs into build/install.
#   scripts/build.sh [CMake arguments]     -DHALOCONV_TESTS=ON builds the C++ tests too
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"

# -U: what an earlier build was for is forgotten.
arguments=(-DHALOCONV_CUDA="$HALOCONV_CUDA" -DHALOCONV_TESTS=OFF -DHALOCONV_WHEEL=OFF
  -UHALOCONV_CUDA_ARCHITECTURES -UHALOCONV_CUDA_FAST_COMPILE)
if [[ $HALOCONV_CUDA == ON ]]; then
  arguments+=(-DCMAKE_CUDA_COMPILER="$CUDACXX")
fi
torch_prefix=$("$HALOCONV_PYTHON" -c 'import torch; print(torch.utils.cmake_prefix_path)')

# A compiler reading torch's headers takes up to 2 GB.
memory_gb=$(awk '/MemAvailable/ { print int($2 / 1e6) }' /proc/meminfo)
jobs=$((memory_gb / 2 < $(nproc) ? memory_gb / 2 : $(nproc)))
jobs=$((jobs < 1 ? 1 : jobs))

say "building, $jobs jobs at a time"
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$torch_prefix" \
  "${arguments[@]}" "$@"
cmake --build build -j "$jobs"
cmake --install build --prefix build/install >/dev/null
