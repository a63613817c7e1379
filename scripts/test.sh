#!/usr/bin/env bash
# Sets up, builds, and runs all checks and tests; the last lines say how long each step took,
# and count the tests.
#   scripts/test.sh [--only-tests]     without format check, sanitizers and wheel, which no GPU changes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=true
[[ ${1:-} != --only-tests ]] || all=false
# Hundreds of processes import torch, of whose modules setup.sh has pip compile none: the first keeps their
# bytecode for the others, also where the environment says that nothing is kept beside the sources.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$PWD/build/bytecode"
rm -rf "$PYTHONPYCACHEPREFIX"
if $all && [[ -z ${HALOCONV_PYTHON:-} ]]; then
  # The oldest torch and the newest, from the start: one download after another keeps one core busy. If
  # it fails, for want of a package that the set-up installs, scripts/torch_versions.sh does it again.
  mkdir -p build
  scripts/torch_versions.sh --environments >build/environments.log 2>&1 &
fi
source scripts/setup.sh

results="$PWD/build/test_results"
rm -rf "$results"

# Of what took so long: a line of the table that ends it all.
took() {  # name, seconds
  mkdir -p "$results/$1"
  echo "$2" >"$results/$1/seconds"
}

# Runs one step; its folder of results gets the exit status, and XML if the step writes any.
step() {  # name, command...
  local name=$1 status=0 start=$SECONDS
  shift
  say "$name"
  mkdir -p "$results/$name"
  "$@" || status=$?
  echo "$status" >"$results/$name/status"
  took "$name" $((SECONDS - start))
}

# Where CMake looks too: below CMAKE_PREFIX_PATH and in the compiler's own folders.
has_gtest() {
  local prefix prefixes
  IFS=: read -ra prefixes <<<"${CMAKE_PREFIX_PATH:-}"
  for prefix in "${prefixes[@]}"; do
    [[ -f $prefix/include/gtest/gtest.h ]] && return
  done
  g++ -E -include gtest/gtest.h -x c++ /dev/null >/dev/null 2>&1
}

has_gtest || need_packages libgtest-dev
need_modules pytest numpy sklearn PIL torchvision matplotlib
if $all; then
  need_programs clang-format ruff
fi
gpu=true
has_gpu || gpu=false
options=(-DHALOCONV_TESTS=ON -DHALOCONV_WERROR=ON)
# Where nothing runs them, the kernels for any chip are compiled for one alone, and to slow code.
$gpu || options+=(-DHALOCONV_CUDA_ARCHITECTURES=90-real -DHALOCONV_CUDA_FAST_COMPILE=ON)
took set_up "$SECONDS"
start=$SECONDS
scripts/build.sh "${options[@]}"
took build $((SECONDS - start))

# Inductor otherwise asks the compiler, in a cold cache, and a Python that imports torch, in every process,
# whether the processor has the vector instructions that it says it has.
export TORCHINDUCTOR_VEC_ISA_OK=1
# Nor does it start processes, each of which imports torch, to compile what one test waits for.
$gpu || export TORCHINDUCTOR_COMPILE_THREADS=1

cpp_tests() {  # program
  step "$1" "build/cpp_tests/$1" --gtest_brief=1 --gtest_output="xml:$results/$1/gtest.xml"
}

python_tests() {
  local name processes
  read -ra processes <<<"$(pytest_processes "$HALOCONV_PYTHON")"
  for name in python_tests benchmarks; do
    step "$name" "$HALOCONV_PYTHON" -m pytest -q "${processes[@]}" "$name" \
      --junitxml "$results/$name/pytest.xml"
  done
}

# Runs a function beside what follows. What it prints comes in one piece, when it ends.
beside=()
start_beside() {  # function, its arguments
  {
    "$@" >"$results/${*: -1}.log" 2>&1
    cat "$results/${*: -1}.log"
  } &
  beside+=("$!")
}

# Many steps have one thread: beside others, no core waits for them. Threads of torch's that wait for each
# other are not to keep a core from those that work. With a GPU, Python's tests run alone, for some look
# at its memory and time kernels.
export OMP_WAIT_POLICY=passive
start_beside cpp_tests op_tests
$gpu || start_beside python_tests
if $all; then step lint scripts/lint.sh; fi
cpp_tests tuning_tests
cpp_tests haloconv_tests
# haloconv_tests are left out: all of registration/ would be compiled once more for them (CONTRIBUTING.md).
if $all; then step sanitize scripts/sanitize.sh tuning_tests op_tests; fi
# A few training steps: enough to see that the examples work and agree.
step examples scripts/examples.sh "$results/examples" -100 --steps 20
wait "${beside[@]}"
unset OMP_WAIT_POLICY
if $gpu; then python_tests; fi
if $all; then
  wait # for the environments
  step wheel scripts/wheel.sh "$results/examples/denoiser.pt" "$results/examples/photograph.pt" &
  wheel=$!  # takes a minute of one core
  if may_download; then
    HALOCONV_TEST_RESULTS="$results/torch_versions" step torch_versions scripts/torch_versions.sh
  else
    say "other torch versions are not tested: HALOCONV_PYTHON is set, and nothing is downloaded"
  fi
  wait "$wheel"
fi

took everything "$SECONDS"
"$HALOCONV_PYTHON" scripts/tally.py "$results"
