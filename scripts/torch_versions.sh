#!/usr/bin/env bash
# Tests what depends on torch with other torch versions. Builds one wheel for the torch of the Python
# here and for these, as pip does it in isolation and without the CUDA half, installs it beside each of
# them, and tests it there: the wheel, registration, schemas, gradients, Meta, torch.compile,
# TorchScript, and a C++ program.
#   scripts/torch_versions.sh [VERSION...]     the oldest and the newest if none is given
# Each version has an environment of its own below build/torch, or below HALOCONV_TORCH_ENVIRONMENTS,
# where it is used if it is there. One takes 5 to 7 GB: PyPI's torch brings CUDA's libraries.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"
(($#)) || set -- 2.10.0 2.15.0
folder=$haloconv_root/build/torch
environments=$(realpath -m "${HALOCONV_TORCH_ENVIRONMENTS:-$folder}")

tests=(test_wheel test_torch_versions test_loading test_conv2d_script test_conv2d_func
  test_conv2d_messages test_conv2d_compile test_conv2d_compiled_autograd test_fx)
files=("${tests[@]/#/python_tests/}")
files=("${files[@]/%/.py}")

make_environment() {  # folder, version
  [[ ! -f $1/requirements.txt ]] || return 0  # written when all is there
  may_download || die "there is no $1, and with a HALOCONV_PYTHON nothing is downloaded"
  python3 -m venv --clear "$1"
  printf 'torch==%s\nsetuptools\n' "$2" >"$1.txt"
  grep -E '^(numpy|pytest)==' scripts/requirements.txt >>"$1.txt"
  "$1/bin/python" -m pip install --disable-pip-version-check --no-cache-dir -q -r "$1.txt"
  mv "$1.txt" "$1/requirements.txt"
}

# Without the optimisations that take long: nothing here is timed.
build_wheel() {  # versions
  local version torches=()
  for version in "$@"; do
    torches+=("$(echo "$environments/$version"/lib/python3*/site-packages/torch)")
  done
  rm -rf "$folder/wheel" "$folder/wheelhouse"
  "$HALOCONV_PYTHON" scripts/wheelhouse.py "$folder/wheelhouse"
  HALOCONV_TORCHES=$(IFS=";" && echo "${torches[*]}") \
    "$HALOCONV_PYTHON" -m pip wheel . --disable-pip-version-check -q --no-deps --no-index \
    --find-links "$folder/wheelhouse" -w "$folder/wheel" --config-settings build-dir="$folder/build" \
    --config-settings cmake.define.HALOCONV_CUDA=OFF \
    --config-settings cmake.define.HALOCONV_PRECOMPILE=ON \
    --config-settings cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O1
  scripts/tag_wheel.sh "$folder"/wheel/*.whl
}

# examples/cpp's program, on a model saved by this torch.
run_program() {  # folder, Python
  local prefix
  prefix=$(cd / && "$2" -c 'import haloconv, torch
print(haloconv.cmake_prefix_path, torch.utils.cmake_prefix_path, sep=";")') &&
    cmake -S examples/cpp -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_PREFIX_PATH="$prefix" >"$1.log" &&
    cmake --build "$1" --target compare &&
    "$2" -c 'import sys, haloconv, torch
layer = haloconv.nn.Conv2d(3, 8, 3, padding=1)
torch.jit.script(layer).save(sys.argv[1])' "$1/layer.pt" &&
    "$1/compare" "$1/layer.pt" "$1/layer.pt" 1,3,32,32
}

test_version() {
  local python=$environments/$1/bin/python
  "$python" -m pip install --disable-pip-version-check -q --no-index --force-reinstall --no-deps \
    "$folder"/wheel/*.whl || return
  # The tests import the source tree's package, the same, with the library of the wheel.
  HALOCONV_LIBRARY=$(cd / && "$python" -c 'import haloconv as h; print(h.library_path)') ||
    return
  HALOCONV_LIBRARY=$HALOCONV_LIBRARY "$python" -m pytest -q -rs -p no:cacheprovider \
    --junitxml "${HALOCONV_TEST_RESULTS:-$folder}/torch_$1.xml" "${files[@]}" || return
  run_program "$folder/program_$1" "$python"
}

for version in "$@"; do
  make_environment "$environments/$version" "$version"
done
say "a wheel for torch $*"
build_wheel "$@"
failed=()
for version in "$@"; do
  say "torch $version"
  test_version "$version" || failed+=("$version")
done
((${#failed[@]} == 0)) || die "failed with torch ${failed[*]}"
