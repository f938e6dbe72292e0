#!/usr/bin/env bash
# Installs the missing Debian packages of the named lists: `install_packages.sh build demo` reads packages/build.txt and
# packages/demo.txt. Only root can install packages; for other users the script prints the command that root has to run.
# Exit status 4: packages are missing and were not installed.
set -euo pipefail
cd "$(dirname "$0")/.."

for list in "$@"; do
  if [ ! -f "packages/$list.txt" ]; then
    echo "deps: there is no list packages/$list.txt" >&2
    exit 2
  fi
done

missing=()
for package in $(for list in "$@"; do sed 's/#.*//' "packages/$list.txt"; done); do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing+=("$package")
done

if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "deps: xrun is built on Debian 12, and apt-get was not found; missing: ${missing[*]}" >&2
  exit 4
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "deps: ${#missing[@]} Debian packages are missing; as root: apt-get install ${missing[*]}" >&2
  exit 4
fi
echo "deps: installing ${#missing[@]} Debian packages: ${missing[*]}"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "deps: installed in $((SECONDS / 60)) min $((SECONDS % 60)) s"
