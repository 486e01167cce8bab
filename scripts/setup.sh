#!/usr/bin/env bash
# Installs what a fresh Debian machine lacks. Talks on stderr only, so that a caller's stdout stays its own.
#   --for GOAL   what is to be run, a goal of the Makefile; may be given more than once; default: what the demo needs
#   --yes        install system packages without asking. CI=true says the same
# It asks once on a terminal. Without one, and without --yes, it installs no system package, and stops (exit code 3) where one is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

purposes=()
agreed=no
[ "${CI:-}" != true ] || agreed=yes
while [ $# -gt 0 ]; do
  case $1 in
    --for) purposes+=("$2"); shift ;;
    --yes) agreed=yes ;;
  esac
  shift
done

if ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null; then
  echo "Tidemark needs Node.js 20.19 or newer; this machine has $(node --version 2>/dev/null || echo none)." >&2
  exit 2
fi

if ! cmp -s package-lock.json node_modules/.tidemark-lock; then
  echo "Installing npm packages ..." >&2
  # Not npm ci: it refuses a lock without the packages of foreign platforms, which not every registry has. The versions and
  # checksums are the lock's all the same.
  npm install --no-save --no-fund --no-audit --loglevel=error >&2
  cp package-lock.json node_modules/.tidemark-lock
fi

# package:a program that it brings
wanted=(btrfs-progs:mkfs.btrfs e2fsprogs:mkfs.ext4 xfsprogs:mkfs.xfs util-linux:losetup mount:mount)
tests=(lvm2:lvm prometheus:prometheus strace:strace openssl:openssl procps:ps)
vm=(attr:setfattr user-mode-linux:linux.uml kmod:modprobe busybox-static:busybox dmsetup:dmsetup thin-provisioning-tools:thin_check)
! grep -qw amx_tile /proc/cpuinfo || vm+=(gcc:cc) # test/vm/wide-registers.c
cluster=(containerd:containerd runc:runc containernetworking-plugins:/usr/lib/cni/ptp nftables:nft iproute2:ip openssl:openssl
  busybox-static:busybox)
for purpose in "${purposes[@]}"; do
  case $purpose in
    test | mutants) wanted+=("${tests[@]}") ;;
    test-real | soak) wanted+=("${tests[@]}" "${vm[@]}" "${cluster[@]}") ;;
    cluster) wanted+=("${cluster[@]}") ;;
    bench) wanted+=("${cluster[@]}" "${vm[@]}" lvm2:lvm fio:fio strace:strace) ;;
  esac
done
missing=()
for entry in "${wanted[@]}"; do
  name=${entry%%:*}
  PATH="$PATH:/usr/sbin:/sbin" command -v "${entry#*:}" >/dev/null || [[ " ${missing[*]} " == *" $name "* ]] || missing+=("$name")
done
newer_kernel() {
  # The second kernel that some tests run on; without it they say so.
  [[ " ${purposes[*]} " =~ \ (test-real|soak)\  ]] || return 0
  test/vm/get-newer-kernel.sh >&2 || true
}
[ ${#missing[@]} -gt 0 ] || { newer_kernel; exit 0; }

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "Not installed: ${missing[*]} (needs root and apt-get). What needs them runs simulated or is skipped, and says so." >&2
  exit 0
fi
if [ "$agreed" = no ]; then
  if ! [ -t 0 ] || ! [ -t 2 ]; then
    echo "Debian packages are missing, and there is no terminal to ask on: ${missing[*]}. To have them installed, give ARGS=--yes" \
      "(make ${purposes[*]:-setup} ARGS=--yes) or set CI=true; or install them: apt-get install ${missing[*]}" >&2
    exit 3
  fi
  read -r -p "Install ${missing[*]} with apt-get? [Y/n] " answer >&2
  [[ "$answer" =~ ^([yY].*)?$ ]] || exit 0
fi
echo "Installing ${missing[*]} ..." >&2
export DEBIAN_FRONTEND=noninteractive
# Tests start a Prometheus and containerds of their own; the packages' services must not begin to run on this machine.
held=()
for service in prometheus containerd; do
  [[ " ${missing[*]} " == *" $service "* ]] && [ -d /run/systemd/system ] || continue
  systemctl mask --quiet "$service.service" && held+=("$service.service")
done
apt-get -o DPkg::Lock::Timeout=300 update -qq >&2 || true
apt-get -o DPkg::Lock::Timeout=300 install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
for service in "${held[@]}"; do systemctl unmask --quiet "$service" && systemctl disable --quiet "$service"; done
newer_kernel
