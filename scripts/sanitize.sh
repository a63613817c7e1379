#!/usr/bin/env bash
# Builds C++ tests by CMake's preset `sanitize`, under the address and undefined-behaviour sanitizers,
# and runs them: those named, or of what reads others' files and runs in threads, which takes a minute.
#   scripts/sanitize.sh [op_tests] [tuning_tests] [haloconv_tests]
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"
programs=("${@:-tuning_tests}")
prefix=$("$HALOCONV_PYTHON" -c 'import torch; print(torch.utils.cmake_prefix_path)')
cmake --preset sanitize -DCMAKE_PREFIX_PATH="$prefix"
cmake --build build/presets/sanitize --target "${programs[@]}"
export ASAN_OPTIONS=detect_leaks=0  # torch keeps its registrations
for program in "${programs[@]}"; do
  "build/presets/sanitize/cpp_tests/$program" --gtest_brief=1
done
