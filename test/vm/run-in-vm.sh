#!/usr/bin/env bash
# run-in-vm.sh DISK_SIZES COMMAND [ARG ...]: runs a command as root under a Linux kernel of its own (User Mode Linux), with
# capabilities and device types that the host may lack. The guest's root is the host's, copy-on-write; only the current
# directory is the host's own. Each word of DISK_SIZES ("4G 1G") is a fresh sparse disk: /dev/ubda, /dev/ubdb, ...; one that begins
# with a slash is a file that is kept. stdout, stderr and the exit status pass through; 125 says that the machine itself failed, 124 that
# time was up. SIGTERM is a power cut: the machine ends by SIGKILL, and has ended when this has. It also ends when this
# is killed, and when the process that has started this ends.
#   VM_KERNEL       the kernel (Debian's user-mode-linux: /usr/bin/linux.uml)
#   VM_HOME         what get-newer-kernel.sh has made: its kernel, modules and libraries instead of Debian's
#   VM_MODULES      modules to load, e.g. "loop dm-mod"
#   VM_SECONDS      time limit, default 300
#   VM_CORE         keeps it on this core: it never runs on two
set -uo pipefail
kernel=${VM_KERNEL:-/usr/bin/linux.uml}
kernel_modules=/usr/lib/uml/modules
library_path=()
preloaded=()
own_flags=()
if [ -n "${VM_HOME:-}" ]; then
  kernel=$VM_HOME/linux
  kernel_modules=$VM_HOME/modules
  library_path=(LD_LIBRARY_PATH="$VM_HOME/libraries")
  # Where get-newer-kernel.sh makes it look for its loader.
  ln -sfn "$VM_HOME/libraries/ld-linux-x86-64.so.2" /run/tidemark-uml-ld.so
  own_flags=(seccomp=auto) # from Linux 6.16: quicker than ptrace
fi
[ $# -ge 2 ] || { sed -n '2,13p' "$0" >&2; exit 2; }
[ -x "$kernel" ] || { echo "run-in-vm: no $kernel (package user-mode-linux)" >&2; exit 125; }
disk_sizes=$1
shift

# Not below /dev, which the guest's kernel mounts over; short, since a socket's path below it has a limit.
work=$(mktemp -d /tmp/tidemark-vm.XXXXXX)
disk_directory=$(mktemp -d /dev/shm/tidemark-vm.XXXXXX)
machine=
clock=
cleanup() {
  if [ -n "$machine" ]; then
    kill -9 -- "-$machine" 2>/dev/null
    wait "$machine" 2>/dev/null
  fi
  [ -z "$clock" ] || kill -- "-$clock" 2>/dev/null
  rm -rf "$work" "$disk_directory"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Debian's kernel ends at its first process on a processor with AMX.
if [ -z "${VM_HOME:-}" ] && grep -qw amx_tile /proc/cpuinfo; then
  cc -shared -fPIC -O2 -nostdlib -o "$work/wide-registers.so" "$(dirname "$0")/wide-registers.c" || { echo "run-in-vm: no C compiler (package gcc)" >&2; exit 125; }
  preloaded=(LD_PRELOAD="$work/wide-registers.so")
fi

on_core=()
[ -z "${VM_CORE:-}" ] || on_core=(taskset --cpu-list "$VM_CORE")

disks=()
letter=a
for size in $disk_sizes; do
  disk=$disk_directory/$letter
  if [[ $size == /* ]]; then disk=$size; else truncate -s "$size" "$disk"; fi
  disks+=("ubd$letter=$disk")
  letter=$(tr a-y b-z <<<"$letter")
done

printf '%q ' "$@" >"$work/command"
cat >"$work/settings" <<SETTINGS
export PATH=$(printf %q "$PATH") HOME=/root LC_ALL=C.UTF-8 CI=$(printf %q "${CI:-}") NODE_OPTIONS=$(printf %q "${NODE_OPTIONS:-}")
${TIDEMARK_SAMPLE:+export TIDEMARK_SAMPLE=$(printf %q "$TIDEMARK_SAMPLE")}
${TIDEMARK_SEED:+export TIDEMARK_SEED=$(printf %q "$TIDEMARK_SEED")}
directory=$(printf %q "$PWD") kernel_modules=$(printf %q "$kernel_modules") modules=$(printf %q "${VM_MODULES:-loop}")
SETTINGS

# Process 1, on the host's root, read-only: build the copy-on-write root and enter it.
cat >"$work/init" <<'INIT'
#!/bin/bash
mount -t proc proc /proc
for word in $(</proc/cmdline); do case $word in work=*) work=${word#work=} ;; esac; done
. "$work/settings"
fail() { echo "run-in-vm: $*" >"$work/failure"; exec busybox poweroff -f; }
mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /run || fail "mounting sysfs and /run"
mkdir -p /run/layer/upper /run/layer/work /run/root /run/modules/lib
ln -s "$kernel_modules" /run/modules/lib/modules
modprobe -d /run/modules overlay || fail "no overlay module for $(uname -r)"
mount -t overlay -o lowerdir=/,upperdir=/run/layer/upper,workdir=/run/layer/work overlay /run/root || fail "mounting the root"
modprobe -d /run/modules -a $modules || fail "no module among: $modules"
root=/run/root
for place in proc sys dev; do mount --move /$place $root/$place; done
for place in run tmp var/tmp dev/shm; do mkdir -p $root/$place && mount -t tmpfs tmpfs $root/$place; done
# Nobody runs udevd here: LVM makes its device nodes itself and waits for no one.
if [ -d $root/etc/lvm ]; then
  rm -rf $root/etc/lvm/devices $root/etc/lvm/backup $root/etc/lvm/archive
  cat >$root/etc/lvm/lvmlocal.conf <<'LVM'
activation { udev_sync=0 udev_rules=0 monitoring=0 }
devices { obtain_device_list_from_udev=0 use_devicesfile=0 }
global { event_activation=0 use_lvmpolld=0 notify_dbus=0 }
LVM
fi
mkdir -p $root/run/lock/lvm $root/run/lvm "$root$work" "$root$directory"
mount -t hostfs -o "$work" none "$root$work" && mount -t hostfs -o "$directory" none "$root$directory" || fail "mounting $directory"
exec chroot $root /bin/bash "$work/session" "$work"
INIT
cat >"$work/session" <<'SESSION'
work=$1
. "$work/settings"
ip link set lo up 2>/dev/null || busybox ip link set lo up
stty -F /dev/ttyS0 raw -echo
stty -F /dev/ttyS1 raw -echo
cd "$directory"
setsid bash "$work/command" </dev/null >/dev/ttyS0 2>/dev/ttyS1
status=$?
stty -F /dev/ttyS0 drain
stty -F /dev/ttyS1 drain
echo $status >"$work/status"
busybox poweroff -f
SESSION
chmod +x "$work/init"

set -m
"${on_core[@]}" setarch -R env -i PATH="$PATH" TMPDIR=/dev/shm "${library_path[@]}" "${preloaded[@]}" "$kernel" "${own_flags[@]}" mem="${VM_MEMORY:-2048M}" umid=machine uml_dir="$work/" \
  root=/dev/root rootfstype=hostfs rootflags=/ ro init="$work/init" work="$work" panic=-1 quiet \
  con=null con0=null,fd:5 con1=null,fd:5 ssl=null ssl0=null,fd:3 ssl1=null,fd:4 "${disks[@]}" \
  3>&1 4>&2 5>"$work/console" </dev/null >"$work/kernel" 2>&1 &
machine=$!
# In a group of its own, since a suite that is ended by SIGKILL takes this script with it, but not the machine.
is_wanted() {
  local state parent
  read -r _ _ state parent _ <"/proc/$$/stat" && [ "$state" != Z ] && [ "$parent" = "$PPID" ]
}
watch_machine() {
  local until=$((SECONDS + ${VM_SECONDS:-300}))
  while is_wanted; do
    if [ $SECONDS -ge $until ]; then touch "$work/late"; break; fi
    sleep 1
  done
  kill -9 -- "-$machine"
  # Its processes write there until they have ended; who is never waited for looks alive for ever.
  for _ in {1..100}; do kill -0 -- "-$machine" && sleep 0.1; done
  is_wanted || rm -rf "$work" "$disk_directory"
}
watch_machine >/dev/null 2>&1 </dev/null &
clock=$!
wait "$machine" 2>/dev/null
kill -- "-$clock" 2>/dev/null
wait "$clock" 2>/dev/null
clock=

[ ! -s "$work/status" ] || exit "$(cat "$work/status")"
if [ -e "$work/late" ]; then echo "run-in-vm: not done after ${VM_SECONDS:-300} s" >&2; exit 124; fi
cat "$work/failure" "$work/console" "$work/kernel" 2>/dev/null | tail -20 >&2
echo "run-in-vm: the machine ended without a status" >&2
exit 125
