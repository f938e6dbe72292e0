#!/bin/bash
# Compiles the kernels of GPUs, ops/gpu/*.cu and those of its folders, to PTX for compute_80 and compute_90 and packs the texts as
# ops/gpu/ptx.tar.xz, which is part of the project, since most machines have no nvcc (docs/internals/gpu_kernels.md).
# With --check it compares the texts with those in the archive instead and prints the names of those that differ.
#   NVCC   the compiler, version 13.0; default: the one in PATH or in /usr/local/cuda
set -eu -o pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if ! [ -x "$nvcc" ]; then
  echo "nvcc was not found: install the CUDA toolkit 13.0, or set NVCC" >&2
  exit 77
fi
version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\), V\([0-9.]*\).*/\2/p')
if ! [[ $version == 13.0.* ]]; then
  echo "nvcc has version $version; the texts need version 13.0, since other versions write other texts" >&2
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/new"
for source in ops/gpu/*.cu ops/gpu/*/*.cu; do
  name=$(basename "$source" .cu)
  for compute in 80 90; do
    text=$work/new/${name}_$compute.ptx
    # -fmad=false: products and sums are fused only where the source does so. -ftz=true: subnormal numbers become zero,
    # as on the processor. Paths of the machine are removed from the text, and digests of paths in the names of inlined
    # functions, which are lists of character codes, become zeros. Names of kernels must not contain such digests, so
    # kernels have no anonymous namespaces.
    "$nvcc" -std=c++20 -I. -ptx -arch=compute_$compute -O3 -fmad=false -ftz=true -lineinfo --expt-relaxed-constexpr \
      -MD -MF "$work/$name.d" "$source" -o "$text"
    sed -E -i 's|(\.file\s+[0-9]+ ")[^"]*/|\1|; s/\s+$//' "$text"
    python3 scripts/gpu_ptx_names.py "$text"
    if grep -q _INTERNAL_ "$text"; then
      echo "$source: nvcc writes a digest of the path into the name of an internal function; make it inline" >&2
      exit 1
    fi
  done
  tr ' \\' '\n' <"$work/$name.d" | grep -E '^(\./)?(graph|ops)/.*\.(cu|h)$' | sed 's|^\./||' >>"$work/sources" || true
done
sort -u "$work/sources" | xargs sha256sum >"$work/new/sources"

if [ "${1:-}" = --check ]; then
  mkdir "$work/old"
  tar -C "$work/old" -xJf ops/gpu/ptx.tar.xz
  diff -rq "$work/old" "$work/new"
else
  tar -C "$work/new" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -c . |
    xz -9e -T1 >ops/gpu/ptx.tar.xz
  ls -l ops/gpu/ptx.tar.xz
fi
