#!/usr/bin/env bash
# Builds one wheel for several torch versions, from the source distribution and in isolation, installs it
# beside each of them, in environments of their own below build/torch, and tests there what depends on
# torch: registration, schemas, gradients, Meta, torch.compile, TorchScript, the wheel itself, and a C++
# program. The kernels are those in build/, where they are built; otherwise it is a wheel of the CPU half.
# An environment takes 5 to 7 GB: PyPI's torch brings CUDA's libraries.
#   scripts/torch_versions.sh [--environments | --all] [VERSION...]
# Without a version it takes the oldest and the newest; with --environments it only makes these
# environments, which is mostly downloading. That needs no set-up, and can go on beside it. With --all it
# runs all Python tests, one version after the other.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
only_environments=false all=false
case ${1:-} in
  --environments) only_environments=true ;;
  --all) all=true ;;
esac
if $only_environments || $all; then shift; fi
if ! $only_environments; then
  source scripts/setup.sh
  may_download || die "makes environments of its own; unset HALOCONV_PYTHON"
fi
(($#)) || set -- 2.10.0 2.15.0

tests=(test_torch_versions test_wheel test_loading test_conv2d_script test_conv2d_func
  test_conv2d_messages test_conv2d_compile test_conv2d_compiled_autograd test_fx)
files=("${tests[@]/#/python_tests/}")
files=("${files[@]/%/.py}")
# Of the other tests, one whose result torch 2.14 changed.
files+=(python_tests/test_conv2d_fused_gradients.py::test_gradient_at_a_bound)
# What takes long, and no version of torch makes different: fused convolutions, which are captured many
# times, and what loading the library leaves as it was; test_no_other_operator_gets_a_kernel stays.
left_out=()
for name in test_conv2d_compiled_autograd.py::test_fused test_loading.py::test_captured_graphs \
  test_loading.py::test_results_of_torch_s test_loading.py::test_torch_s_convolution; do
  left_out+=(--deselect "python_tests/$name")
done
if $all; then
  files=(python_tests) left_out=()
fi

python_of() { echo "$PWD/build/torch/$1/bin/python"; }  # version

make_environment() {  # version
  local folder=build/torch/$1 wanted
  wanted=$(printf '%s\n' "torch==$1" torchvision setuptools &&
    grep -E '^(cmake|ninja|numpy|pytest|pytest-xdist|scikit-build-core)==' scripts/requirements.txt)
  [[ $(cat "$folder/installed.txt" 2>/dev/null) != "$wanted" ]] || return 0
  echo "== making an environment with torch $1" >&2
  python3 -m venv --clear "$folder"
  echo "$wanted" >"$folder/wanted.txt"
  "$folder/bin/python" -m pip install --disable-pip-version-check --no-cache-dir --no-compile -q \
    -r "$folder/wanted.txt" || return
  mv "$folder/wanted.txt" "$folder/installed.txt"
}

# Built by the first version, with a library for each of the others too. pip's isolation sees only what
# pyproject.toml asks for, which wheelhouse.py takes from that version's environment.
build_wheel() {  # version...
  local python version torches=() cuda=(HALOCONV_CUDA=OFF)
  local kernels="$PWD/build/op/libhaloconv_kernels.so.0"
  python=$(python_of "$1")
  for version in "${@:2}"; do
    torches+=("$("$(python_of "$version")" -c 'import torch; print(torch.__path__[0])')")
  done
  if [[ -f $kernels ]] && grep -q '^HALOCONV_CUDA:BOOL=ON' build/CMakeCache.txt; then
    cuda=(HALOCONV_CUDA=ON HALOCONV_KERNELS="$kernels"
      CUDAToolkit_ROOT="$(dirname "$(dirname "$(realpath "${CUDACXX:-/usr}")")")")
  fi
  # pip unpacks the sources to a new folder each time, which what was built from another one refuses.
  rm -rf build/torch/haloconv-* build/torch/wheelhouse "build/torch/$1/wheel"
  "$python" scripts/wheelhouse.py build/torch/wheelhouse &&
    "$python" -c 'from scikit_build_core import build; build.build_sdist("build/torch")' || return
  # Without the optimisations that take long: nothing here is timed.
  HALOCONV_TORCHES=$(IFS=';' && echo "${torches[*]}") "$python" -m pip wheel \
    build/torch/haloconv-*.tar.gz --disable-pip-version-check -q --no-deps --no-index \
    --find-links build/torch/wheelhouse -w build/torch \
    --config-settings build-dir="$PWD/build/torch/$1/wheel" \
    "${cuda[@]/#/--config-settings=cmake.define.}" \
    --config-settings cmake.define.HALOCONV_PRECOMPILE=ON \
    --config-settings cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O1 &&
    scripts/tag_wheel.sh build/torch/haloconv-*.whl
}

# examples/cpp's program, on a model saved by this torch.
run_program() {  # folder, Python, torch's prefix, haloconv's prefix
  cmake -S examples/cpp -B "$1/example" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DCMAKE_PREFIX_PATH="$4;$3" >"$1/example.log" &&
    cmake --build "$1/example" --target compare &&
    "$2" -c 'import sys, haloconv, torch
layer = haloconv.nn.Conv2d(3, 8, 3, padding=1)
torch.jit.script(layer).save(sys.argv[1])' "$1/layer.pt" &&
    "$1/example/compare" "$1/layer.pt" "$1/layer.pt" 1,3,32,32
}

test_version() {  # version
  local folder=build/torch/$1 python installed processes program failed=0
  python=$(python_of "$1")
  "$python" -m pip install --disable-pip-version-check -q --no-deps --no-index --force-reinstall \
    build/torch/haloconv-*.whl || return
  mapfile -t installed < <(cd / && "$python" -c 'import haloconv, torch
print(haloconv.library_path, torch.utils.cmake_prefix_path, haloconv.cmake_prefix_path, sep="\n")')
  ((${#installed[@]} == 3)) || return
  read -ra processes <<<"$(pytest_processes "$python")"
  run_program "$folder" "$python" "${installed[@]:1}" &  # compiles on one core for half a minute
  program=$!
  HALOCONV_LIBRARY=${installed[0]} "$python" -m pytest -q -rs -p no:cacheprovider \
    "${processes[@]}" --junitxml "${HALOCONV_TEST_RESULTS:-$folder}/torch_$1.xml" "${files[@]}" "${left_out[@]}" || failed=1
  wait "$program" || failed=1
  return "$failed"
}

failed=()
for version in "$@"; do
  make_environment "$version" || failed+=("$version")
done
if ((${#failed[@]})); then
  echo "error: could not install torch ${failed[*]}" >&2
  exit 1
fi
if $only_environments; then exit; fi

say "building a wheel for torch $*"
build_wheel "$@" || die "the wheel could not be built"
# What one prints comes in one piece.
declare -A running
start_tests() {  # version
  test_version "$1" >"build/torch/$1/tests.log" 2>&1 &
  running[$1]=$!
}
end_tests() {  # version
  wait "${running[$1]}" || failed+=("$1")
  say "torch $1"
  cat "build/torch/$1/tests.log" >&2
}
if $all; then
  for version in "$@"; do
    start_tests "$version"
    end_tests "$version"
  done
else  # at once, for each has parts of one thread
  for version in "$@"; do start_tests "$version"; done
  for version in "$@"; do end_tests "$version"; done
fi
((${#failed[@]} == 0)) || die "failed with torch ${failed[*]}"
