#!/usr/bin/env bash
# Builds the CPU half for other torch versions, each in an environment of its own below build/torch,
# and tests what depends on torch there: registration, schemas, gradients, Meta, torch.compile,
# TorchScript, and a C++ program. An environment takes 5 to 7 GB: PyPI's torch brings CUDA's libraries.
#   scripts/torch_versions.sh [VERSION...]     the oldest and the newest if none is given
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"
(($#)) || set -- 2.10.0 2.15.0
may_download || die "makes environments of its own; unset HALOCONV_PYTHON"

tests=(test_torch_versions test_loading test_conv2d_script test_conv2d_func test_conv2d_messages
  test_conv2d_compile test_conv2d_compiled_autograd test_fx)
files=("${tests[@]/#/python_tests/}")
files=("${files[@]/%/.py}")
kernels=""  # compiled for the first version, they serve the others

make_environment() {  # folder, version
  [[ -x $1/bin/python ]] || python3 -m venv "$1"
  grep -E '^(numpy|pytest)==' scripts/requirements.txt >"$1/requirements.txt"
  "$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir -q \
    "torch==$2" setuptools -r "$1/requirements.txt"
}

build() {  # folder, torch's prefix
  # Without the optimisations that take long: nothing here is timed.
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 \
    -DHALOCONV_CUDA=OFF -DHALOCONV_TESTS=OFF -DHALOCONV_WHEEL=OFF -DHALOCONV_PRECOMPILE=ON \
    -DHALOCONV_KERNELS="$kernels" -DCMAKE_PREFIX_PATH="$2" >"$1.configure.log" &&
    cmake --build "$1" && cmake --install "$1" --prefix "$1/install" >/dev/null
}

# examples/cpp's program, on a model saved by this torch.
run_program() {  # folder, Python, torch's prefix
  cmake -S examples/cpp -B "$1/example" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$haloconv_root/$1/install;$3" >"$1.example.log" &&
    cmake --build "$1/example" --target compare &&
    "$2" -c 'import sys, haloconv, torch
layer = haloconv.nn.Conv2d(3, 8, 3, padding=1)
torch.jit.script(layer).save(sys.argv[1])' "$1/layer.pt" &&
    "$1/example/compare" "$1/layer.pt" "$1/layer.pt" 1,3,32,32
}

test_version() {
  local folder=build/torch/$1 python=build/torch/$1/venv/bin/python prefix
  mkdir -p "$folder"
  make_environment "$folder/venv" "$1" || return
  prefix=$("$python" -c 'import torch; print(torch.utils.cmake_prefix_path)')
  build "$folder/build" "$prefix" || return
  kernels=${kernels:-$haloconv_root/$folder/build/op/libhaloconv_kernels.so.0}
  export HALOCONV_LIBRARY=$haloconv_root/$folder/build/install/lib/libhaloconv.so.0
  export PYTHONPATH=$haloconv_root/registration/python
  "$python" -m pytest -q -rs -p no:cacheprovider \
    --junitxml "${HALOCONV_TEST_RESULTS:-$folder}/torch_$1.xml" "${files[@]}" || return
  run_program "$folder/build" "$python" "$prefix"
}

failed=()
for version in "$@"; do
  say "torch $version"
  test_version "$version" || failed+=("$version")
done
((${#failed[@]} == 0)) || die "failed with torch ${failed[*]}"
