#!/usr/bin/env bash
# Installs the Debian packages of packages.txt that are missing, with --dev those marked [dev], too; says in one line
# what it does or needs.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
while read -r mark package; do
  case "$mark" in
    "" | "#"*) continue ;;
    "[dev]") [ "${1-}" = --dev ] || continue ;;
    *) package=$mark ;;
  esac
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing+=("$package")
done <packages.txt

if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "deps: this needs Debian 12 (apt-get was not found); missing: ${missing[*]}" >&2
  exit 4
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "deps: not root and no sudo; as root: apt-get install ${missing[*]}" >&2
    exit 4
  fi
  sudo=(sudo)
fi
echo "deps: installing ${#missing[@]} Debian packages: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "deps: installed in $((SECONDS / 60)) min $((SECONDS % 60)) s"
