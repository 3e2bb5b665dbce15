#!/usr/bin/env bash
# Makes sure that Debian packages are there: installs them as root, otherwise says what to install.
set -euo pipefail
command -v dpkg-query >/dev/null || exit 0 # not Debian: what is missing will say so itself
missing=()
for package in "$@"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ]; then
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
else
  echo "system packages are missing; run: sudo apt-get install ${missing[*]}" >&2
  exit 2
fi
