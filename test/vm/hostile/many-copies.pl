#!/usr/bin/perl
# many-copies.pl MOUNT_PATH COPIES SUBVOLUMES SNAPSHOTS: below a btrfs, so many copies by reflink of the directory "scattered", each a
# subvolume where SUBVOLUMES is 1, then so many snapshots with small writes to "hot" between them. In one process, since the start of
# hundreds of programs is most of a virtual machine's time. The numbers and what they take are of linux/fs.h and linux/btrfs.h.
use strict;
use warnings;
use Errno qw(ENOSPC);
use constant { GET_FLAGS => 0x80086601, SET_FLAGS => 0x40086602 };
use constant { FICLONE => 0x40049409, SNAP_CREATE => 0x50009401, SUBVOL_CREATE => 0x5000940e };

my ($mount_path, $copies, $subvolumes, $snapshots) = @ARGV;
open my $root, "<", $mount_path or die "$mount_path: $!";
open my $scattered, "<", "$mount_path/scattered" or die "scattered: $!";
my @names = map { s|.*/||r } glob "$mount_path/scattered/*";
my $flags = pack "q", 0;
ioctl $scattered, GET_FLAGS, $flags or die "flags of scattered: $!";

for my $copy (0 .. $copies - 1) {
  my $directory = "$mount_path/copy$copy";
  # struct btrfs_ioctl_vol_args: a file descriptor and a name.
  if ($subvolumes) { ioctl $root, SUBVOL_CREATE, pack("q a4088", 0, "copy$copy") or die "subvolume $copy: $!" }
  else             { mkdir $directory or die "$directory: $!" }
  open my $handle, "<", $directory or die "$directory: $!";
  ioctl $handle, SET_FLAGS, $flags or die "flags of $directory: $!";
  for my $name (@names) {
    open my $from, "<", "$mount_path/scattered/$name" or die "$name: $!";
    open my $to, ">", "$directory/$name" or die "$directory/$name: $!";
    ioctl $to, FICLONE, fileno $from or die "reflink $directory/$name: $!";
  }
}

open my $into, "<", "$mount_path/snapshots" or die "snapshots: $!";
open my $hot, "+<:raw", "$mount_path/hot" or die "hot: $!";
open my $urandom, "<:raw", "/dev/urandom" or die "urandom: $!";
for my $snapshot (1 .. $snapshots) {
  if (!ioctl $into, SNAP_CREATE, pack("q a4088", fileno $root, $snapshot)) {
    last if $! == ENOSPC; # as many as its user could make
    die "snapshot $snapshot: $!";
  }
  sysread $urandom, my $bytes, 50 * 4096;
  sysseek $hot, $snapshot * 7 % 4000 * 4096, 0 or die "hot: $!";
  syswrite($hot, $bytes) == length $bytes or die "hot: $!";
}
