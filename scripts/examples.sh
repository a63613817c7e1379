#!/usr/bin/env bash
# Runs all examples, each of which checks what it finds. Needs scripts/build.sh first.
#   scripts/examples.sh OUT MIN_GAIN [arguments of the examples that train]
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$haloconv_root"
out=$1 min_gain=$2
shift 2
need_modules matplotlib sklearn torchvision
export PYTHONPATH=registration/python${PYTHONPATH:+:$PYTHONPATH}

scripts/denoiser.sh "$out" "$min_gain" "$@"

say "examples/python: train with torch's convolutions and with haloconv's"
"$HALOCONV_PYTHON" examples/python/replace.py --out "$out" "$@"

say "examples/python: gradients of single samples"
"$HALOCONV_PYTHON" examples/python/per_sample_gradients.py --out "$out" "$@"

say "examples: an autoencoder with transposed layers, trained in Python and run in C++"
"$HALOCONV_PYTHON" examples/python/autoencoder.py --out "$out" "$@"
cmake --build build/examples
build/examples/autoencoder "$out/autoencoder.pt" "$out/unseen.pt"

say "examples/cpp: a network of torchvision's, as it was saved and rewritten"
"$HALOCONV_PYTHON" examples/python/save_network.py --out "$out"
build/install/bin/haloconv-rewrite "$out/network.pt" "$out/network_haloconv.pt" >"$out/rewrite.txt"
head -1 "$out/rewrite.txt"
build/examples/compare "$out/network.pt" "$out/network_haloconv.pt" 1,3,128,128

say "examples: a network exported, compiled by AOTInductor, and run in C++"
"$HALOCONV_PYTHON" examples/python/package.py --out "$out" "$@"
build/examples/run_package "$out/digits.pt2" "$out/digits.pt"

say "examples/python: a photograph denoised by two processes"
OMP_NUM_THREADS=1 "$HALOCONV_PYTHON" -m torch.distributed.run --standalone --nproc-per-node 2 \
  examples/python/denoise_sharded.py --steps 20 --output "$out/denoised_sharded.png"
