#!/usr/bin/env bash
# Fetches a newer User Mode Linux, Debian sid's, from the mirror that this machine uses already, with the C library that it was built
# against beside it: nothing is installed. It goes into ~/.cache/tidemark/uml, for run-in-vm.sh's VM_HOME; once it is there nothing is done.
set -euo pipefail
home=${XDG_CACHE_HOME:-$HOME/.cache}/tidemark/uml
[ ! -x "$home/linux" ] || exit 0
# Either format of its lists.
mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
  sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\).*/\2/p' | grep -m1 '/debian/*$') ||
  { echo "get-newer-kernel: this machine has no mirror of Debian" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{parts,lists/partial,cache/archives/partial,debs,root}
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$work/sources.list"
options=(-o "Dir::Etc::sourcelist=$work/sources.list" -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists"
  -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
apt-get "${options[@]}" -qq update
(cd "$work/debs" && apt-get "${options[@]}" -qq download user-mode-linux/sid libc6/sid)
for package in "$work"/debs/*.deb; do dpkg -x "$package" "$work/root"; done

mkdir -p "$home"
rm -rf "$home/root"
mv "$work/root" "$home/root"
ln -sfn root/usr/lib/uml/modules "$home/modules"
ln -sfn root/usr/lib/x86_64-linux-gnu "$home/libraries"
# The kernel names its loader by a path of the system's, in a field of fixed size: it gets one that is as short.
loader=/run/tidemark-uml-ld.so
node -e '
  const fs = require("fs"), [, from, to, loader] = process.argv, old = "/lib64/ld-linux-x86-64.so.2";
  const elf = fs.readFileSync(from), at = elf.indexOf(old), headers = Number(elf.readBigUInt64LE(32)), size = elf.readUInt16LE(54);
  elf.fill(0, at, at + old.length);
  elf.write(loader, at, "latin1");
  for (let index = 0; index < elf.readUInt16LE(56); index += 1) {
    const header = headers + index * size;
    if (elf.readUInt32LE(header) !== 3) continue;
    elf.writeBigUInt64LE(BigInt(loader.length + 1), header + 32);
    elf.writeBigUInt64LE(BigInt(loader.length + 1), header + 40);
  }
  fs.writeFileSync(to, elf, { mode: 0o755 });' "$home/root/usr/bin/linux.uml" "$home/linux.new" "$loader"
mv "$home/linux.new" "$home/linux"
