#!/usr/bin/env bash
# Builds C++ tests by CMake's preset `sanitize`, under the address and undefined-behaviour sanitizers,
# and runs them: those named, or all, which takes about fifteen minutes on two cores. The library itself is
# built so too, with which haloconv_tests call the operators on a CPU; torch is as it is.
#   scripts/sanitize.sh [op_tests] [tuning_tests] [haloconv_tests]
# Left out are the tests that emulate kernels or go through all plans of many shapes, which take a core about
# twenty minutes under sanitizers. Tests of a GPU are left out too, for this preset has no kernels.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"
programs=("$@")
((${#programs[@]})) || programs=(tuning_tests op_tests haloconv_tests)
prefix=$("$HALOCONV_PYTHON" -c 'import torch; print(torch.utils.cmake_prefix_path)')
cmake --preset sanitize -DCMAKE_PREFIX_PATH="$prefix"
cmake --build build/presets/sanitize -j "$(nproc)" --target "${programs[@]}"
left_out='*Emulation*:*TheDefinition*:*Infinities*:*OfOneTap*:Sm90Plan.*:HaloPlanning.*:ImplicitGemmPlan.*'
export ASAN_OPTIONS=detect_leaks=0  # torch keeps its registrations
for program in "${programs[@]}"; do
  "build/presets/sanitize/cpp_tests/$program" --gtest_brief=1 \
    --gtest_filter="-$left_out:*.OnGpu/*"
done
