#!/usr/bin/env bash
# Installs onnxruntime from PyPI in build/onnx-venv, for the tests of exported files. Without a network, the tests are
# skipped and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/onnx-venv
if [ -x "$venv/bin/python3" ] && "$venv/bin/python3" -c 'import onnx, onnxruntime' 2>/dev/null; then
  exit 0
fi
if ! { python3 -m venv "$venv" && "$venv/bin/pip" install -q onnx==1.23.2 onnxruntime==1.32.0; } >"$venv.log" 2>&1; then
  echo "test: onnxruntime could not be installed from PyPI ($venv.log); tests of exported files will be skipped"
fi
