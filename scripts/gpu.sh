#!/usr/bin/env bash
# Runs everything that needs a GPU and prints a table of the steps; each has its log.
#   scripts/gpu.sh [LOGS [STEP...]]     LOGS: a folder, out/gpu by default; STEP: all by default
#   steps: build test example memcheck racecheck synccheck initcheck benchmark
# Needs no network with a Python of your own, where these are there already: nvcc 13,
# compute-sanitizer, g++, CMake 3.28 or newer and ninja on the PATH, GoogleTest, and in that Python
# torch 2.11.0, torchvision, pytest, numpy, scikit-learn, pillow and matplotlib:
#   HALOCONV_PYTHON=python3 CMAKE_PREFIX_PATH=<GoogleTest's folder> scripts/gpu.sh
# HALOCONV_SANITIZE is the GoogleTest filter that chooses the sanitizers' tests, HALOCONV_COMMIT the
# commit to record with the benchmark's tables where git does not know it, HALOCONV_MOST_TIMES=inf has
# the Hopper kernels' slowest plans tested at real sizes too, for which ten minutes more are needed.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"

[[ $HALOCONV_CUDA == ON ]] || die "no CUDA compiler"
has_gpu || die "torch finds no GPU"

logs=${1:-out/gpu}
steps=("${@:2}")
((${#steps[@]})) || steps=(build test example memcheck racecheck synccheck initcheck benchmark)
mkdir -p "$logs"
PATH+=:$(dirname "$CUDACXX")
export PATH PYTHONUNBUFFERED=1

# Small shapes whose kernels read or write near every kind of edge. The Hopper kernels have hundreds of
# plans for each, of which the tests take some: racecheck needs seconds for one.
edges='*/stride_gcd*:*/four_sided*:*/groups_odd*:*/depthwise_in*:*Sm90*/tails*:*_by_depthwise*'
edges+=':*Wgrad*/rows_*:*Wgrad*/cut_rows*:*Wgrad*/few_tail*:*Sm90*Kernels*/pointwise_*:*/many_tiles*'
edges+='-*OnCpu*:*Emulation*'
edges+=':*_float16'  # whose kernels are bfloat16's with another instruction

sanitize() {  # tool, programs of build/cpp_tests
  local program status=0 filter="--gtest_filter=${HALOCONV_SANITIZE:-$edges}" every=5
  [[ $1 == racecheck ]] && every=23
  for program in "${@:2}"; do
    "build/cpp_tests/$program" --gtest_list_tests "$filter" | grep '^  ' >/dev/null ||
      die "$program has no test with a name like $filter"
    # Without torch's cache each tensor is an allocation of its own, whose bounds memcheck knows.
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 HALOCONV_EVERY_NTH_PLAN=$every \
      compute-sanitizer --tool "$1" --error-exitcode 1 "build/cpp_tests/$program" "$filter" ||
      status=1
  done
  return "$status"
}

benchmark() {  # program in benchmarks/, its arguments
  "$HALOCONV_PYTHON" "benchmarks/$1.py" --output "$logs/benchmark" \
    ${HALOCONV_COMMIT:+--commit "$HALOCONV_COMMIT"} "${@:2}"
}

run_step() {
  local program status=0
  case $1 in
    build) scripts/build.sh -DHALOCONV_TESTS=ON -DHALOCONV_WERROR=ON ;;
    test) scripts/test.sh --only-tests ;;
    example) scripts/examples.sh "$logs/example" 7 ;;
    memcheck) sanitize "$1" op_tests haloconv_tests ;;
    racecheck | synccheck | initcheck) sanitize "$1" op_tests ;;
    benchmark)
      benchmark run || status=1
      benchmark run --dtype bfloat16 || status=1
      benchmark run --no-tf32 --implementation generic || status=1
      for program in train fused host_overhead loss_curve paths; do
        benchmark "$program" || status=1
      done
      return "$status"
      ;;
    *) die "no step $1" ;;
  esac
}

{
  nvidia-smi
  "$CUDACXX" --version
  "$HALOCONV_PYTHON" -VV
} | tee "$logs/machine.log"
table=() status=0
for name in "${steps[@]}"; do
  say "$name"
  start=$SECONDS result=passed
  (run_step "$name") 2>&1 | tee "$logs/$name.log" || { result=FAILED status=1; }
  table+=("$(printf '%-10s %s %5d s  %s' "$name" "$result" $((SECONDS - start)) "$logs/$name.log")")
done
printf '%s\n' "${table[@]}"
exit "$status"
