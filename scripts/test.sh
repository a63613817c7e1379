#!/usr/bin/env bash
# Sets up, builds, and runs all checks and tests; the last line counts them.
#   scripts/test.sh [--only-tests]     without format check, sanitizers and wheel, which no GPU changes
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"

results="$PWD/build/test_results"
rm -rf "$results"

# Runs one step; its folder of results gets the exit status, and XML if the step writes any.
step() {  # name, command...
  local name=$1 status=0
  shift
  say "$name"
  mkdir -p "$results/$name"
  "$@" || status=$?
  echo "$status" >"$results/$name/status"
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
[[ ${1:-} == --only-tests ]] || need_programs clang-format ruff
scripts/build.sh -DHALOCONV_TESTS=ON -DHALOCONV_WERROR=ON

[[ ${1:-} == --only-tests ]] || step lint scripts/lint.sh
for program in op_tests tuning_tests haloconv_tests; do
  step "$program" "build/cpp_tests/$program" --gtest_brief=1 \
    --gtest_output="xml:$results/$program/gtest.xml"
done
[[ ${1:-} == --only-tests ]] || step sanitize scripts/sanitize.sh
step pytest "$HALOCONV_PYTHON" -m pytest -q --junitxml "$results/pytest/pytest.xml"
# A few training steps: enough to see that the examples work and agree.
step examples scripts/examples.sh "$results/examples" -100 --steps 20
[[ ${1:-} == --only-tests ]] ||
  step wheel scripts/wheel.sh "$results/examples/denoiser.pt" "$results/examples/photograph.pt"

"$HALOCONV_PYTHON" scripts/tally.py "$results"
