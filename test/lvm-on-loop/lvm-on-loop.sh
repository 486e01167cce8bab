#!/usr/bin/env bash
# lvm-on-loop.sh DIRECTORY [lvm] COMMAND [ARG ...]: lvm(8) for a machine without device-mapper. The real command on real metadata,
# which may activate nothing; then each linear volume is made to have a loop device of its size, and a link /dev/GROUP/NAME. Reports in
# JSON tell those devices. Output and exit status are LVM's. One at a time; what an interrupted one has left, the next one finishes.
#   DIRECTORY/groups/GROUP.img     the physical volume of a group: LVM keeps its metadata there, and the data is elsewhere
#   DIRECTORY/volumes/GROUP/UUID   the data of a volume: of a wrong size it would be missed as on a real one
# (A shell script, since this stands before each command, and Node.js would take longer to start than LVM does.)
set -uo pipefail
shopt -s nullglob
directory=$1
shift
[ "${1##*/}" != lvm ] || shift
export LVM_SYSTEM_DIR=$directory LVM_SUPPRESS_FD_WARNINGS=1 LC_ALL=C
PATH=/usr/sbin:/usr/bin:/sbin:/bin
# What LVM says of each command here, and would not say where it activates volumes.
noise='WARNING: (Activation disabled|Skipping zeroing|Logical volume [^ ]+ not zeroed)'
failed=5 # ECMD_FAILED

exec 9>"$directory/lock"
flock 9

declare -A loops # by the file behind each
read_loops() {
  local attached path going
  loops=()
  for attached in /sys/block/loop*/loop; do
    { read -r path <"$attached/backing_file" && read -r going <"$attached/autoclear"; } 2>/dev/null || continue
    attached=${attached#/sys/block/}
    [ "$going" = 1 ] || loops[$path]=/dev/${attached%/loop}
  done
}

attach() { # its device is in loops then
  loops[$1]=$(losetup --find --show --nooverlap "$1" 9>&-) || exit $failed
}

# True: one was attached that was not, as after a power cut.
attach_groups() {
  local file missing=no accepted=
  for file in "$directory"/groups/*.img; do
    [ -n "${loops[$file]:-}" ] || { attach "$file" && missing=yes; }
    accepted+="\"a|^${loops[$file]}\$|\", "
  done
  [ $missing = yes ] || return 1
  cat >"$directory/lvm.conf.new" <<SETTINGS
devices {
  dir = "/dev"
  scan = [ "/dev" ]
  use_devicesfile = 0
  obtain_device_list_from_udev = 0
  global_filter = [ $accepted"r|.*|" ]
}
global {
  activation = 0
  event_activation = 0
  locking_dir = "$directory/locks"
  # Each command would end with 30 ms of waiting for the kernel to give up its queue.
  use_aio = 0
}
SETTINGS
  mv "$directory/lvm.conf.new" "$directory/lvm.conf"
}

run() {
  local status line
  lvm "$@" 2>"$directory/said" 9>&-
  status=$?
  while IFS= read -r line; do [[ $line =~ $noise ]] || echo "$line" >&2; done <"$directory/said"
  return $status
}

# Without LVM's word on what there is, nothing is touched.
settle() {
  local group
  run vgs --noheadings -o vg_name >"$directory/found" || exit $failed
  run lvs --noheadings --units b --nosuffix -o vg_name,lv_name,lv_uuid,lv_size >"$directory/volumes.new" || exit $failed
  # Of a group that LVM does not find just now, everything stays.
  while read -r group; do settle_group "$group"; done <"$directory/found"
  mv "$directory/volumes.new" "$directory/volumes.txt"
  rm -f "$directory/unsettled"
}

settle_group() {
  local group=$1 of name uuid bytes file link
  local -A kept=() linked=()
  mkdir -p "$directory/volumes/$group" "/dev/$group"
  while read -r of name uuid bytes; do
    [ "$of" = "$group" ] || continue
    file=$directory/volumes/$group/$uuid
    settle_volume "$file" "$bytes"
    kept[$file]=yes linked[/dev/$group/$name]=yes
    [ "/dev/$group/$name" -ef "${loops[$file]}" ] || ln -sfn "${loops[$file]}" "/dev/$group/$name"
  done <"$directory/volumes.new"
  for link in "/dev/$group"/*; do [ -n "${linked[$link]:-}" ] || rm "$link"; done
  for file in "$directory/volumes/$group"/*; do [ -n "${kept[$file]:-}" ] || forget "$file"; done
}

settle_volume() {
  local file=$1 bytes=$2 sectors=0
  [ -z "${loops[$file]:-}" ] || read -r sectors <"/sys/block/${loops[$file]#/dev/}/size"
  [ $((sectors * 512)) != "$bytes" ] || return 0
  truncate -s "$bytes" "$file"
  if [ -z "${loops[$file]:-}" ]; then attach "$file"; else losetup --set-capacity "${loops[$file]}" 9>&-; fi
}

forget() {
  [ -z "${loops[$1]:-}" ] || losetup --detach "${loops[$1]}" 9>&- # one in use goes with its last user
  rm "$1"
}

declare -A mounted # devices
read_mounted() {
  local device rest
  mounted=()
  while read -r device rest; do mounted[$device]=yes; done </proc/self/mounts
}

# With device-mapper LVM refuses to remove such a volume.
refuse_mounted() {
  local group name uuid bytes word
  read_mounted
  while read -r group name uuid bytes; do
    for word in "$@"; do
      [[ $word == "$group/$name" || $word == "/dev/$group/$name" ]] || continue
      [ -n "${mounted[${loops[$directory/volumes/$group/$uuid]:-none}]:-}" ] || continue
      echo "  Logical volume $group/$name is used by another device." >&2
      exit $failed
    done
  done <"$directory/volumes.txt"
}

# Rows by lv_uuid or lv_path, one on a line, as LVM writes them. Fields and the letters of lv_attr: lvs(8).
tell_devices() {
  local group name uuid bytes device number open
  read_mounted
  while read -r group name uuid bytes; do
    device=${loops[$directory/volumes/$group/$uuid]:-}
    [ -n "$device" ] || continue # somebody has detached it: LVM's report is right then
    read -r number <"/sys/block/${device#/dev/}/dev"
    [ -n "${mounted[$device]:-}" ] && open=o || open=-
    echo "$uuid /dev/$group/$name ${number/:/ } $open"
  done <"$directory/volumes.txt" >"$directory/devices"
  awk -v devices="$directory/devices" '
    function value(field) { return match($0, "\"" field "\":\"[^\"]*") ? substr($0, RSTART + length(field) + 4, RLENGTH - length(field) - 4) : "" }
    function tell(field, now) { sub("\"" field "\":\"[^\"]*\"", "\"" field "\":\"" now "\"") }
    BEGIN { while ((getline line < devices) > 0) { split(line, d, " "); told[d[1]] = told[d[2]] = d[3] " " d[4] " " d[5] } }
    {
      row = value("lv_uuid"); if (row == "") row = value("lv_path")
      if (row != "" && row in told) {
        split(told[row], d, " ")
        tell("lv_kernel_major", d[1]); tell("lv_kernel_minor", d[2])
        tell("lv_active", "active"); tell("lv_active_locally", "active locally")
        attr = value("lv_attr"); if (attr != "") tell("lv_attr", substr(attr, 1, 4) "a" d[3] substr(attr, 7))
      }
      print
    }'
}

read_loops
if attach_groups || [ -e "$directory/unsettled" ]; then settle; fi
case ${1:-} in
  lvs | vgs | pvs | fullreport | version | lvmconfig | dumpconfig | formats | segtypes)
    run "$@" | tell_devices
    exit $?
    ;;
  lvchange) # tags: no size, no name
    run "$@"
    exit $?
    ;;
  lvremove) refuse_mounted "$@" ;;
esac
: >"$directory/unsettled"
run "$@"
status=$?
settle
exit $status
