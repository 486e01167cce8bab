// What an agent reads of its node: the kernel's tables of mounts and swap, what the btrfs tools say, and superblocks.
import assert from "node:assert/strict";
import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { problemOfSuperblock, withFsid } from "../../../src/agent/storage/block/take-copy.ts";
import { hasOurFilters } from "../../../src/agent/storage/btrfs/exclusive-operation.ts";
import { parseLastChunkEnd, parseSubvolumes, swapfilePaths } from "../../../src/agent/storage/btrfs/immovable-data.ts";
import { parseMounts } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import {
  assertWholeMember,
  btrfsDeviceOfBlock,
  readCommittedSize,
  readExt4Bytes,
  readExt4State,
} from "../../../src/agent/storage/filesystem/superblocks.ts";
import { parseDeviceUsage, parseSuperblock } from "../../../src/agent/storage/span/device-identity.ts";
import { type KnownFilesystem, readFilesystemEnd } from "../../../src/lvmd/volumes/reduce/read-signature.ts";
import { mutateBlock, textMutator } from "../mutate.ts";
import { checksummed, formatted, hasRightChecksum, PLACES } from "../superblocks.ts";
import { type FuzzTarget, pure } from "../target.ts";

const ESCAPES = ["\\040", "\\011", "\\012", "\\134", "\\377", "\\400", "\\777", "\\08", "\\"];

/** As the kernel escapes (seq_path): three octal digits of one byte. */
function unescaped(text: string): string {
  let plain = "";
  for (let at = 0; at < text.length; at += 1) {
    const digits = text.slice(at + 1, at + 4);
    const isEscape = text[at] === "\\" && /^[0-7]{3}$/.test(digits) && Number.parseInt(digits, 8) < 256;
    plain += isEscape ? String.fromCharCode(Number.parseInt(digits, 8)) : text[at];
    if (isEscape) at += 3;
  }
  return plain;
}

const mounts: FuzzTarget = {
  name: "the mount table",
  parsers: ["src/agent/storage/filesystem/devices-and-mounts.ts"],
  seeds: () => [
    // Once a path with a character that is no byte.
    "50 22 0:43 / /mnt/\\400 rw - xfs /dev/\\777 rw\n",
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard\n",
    "43 22 0:39 / /var/lib/with\\040space rw,noatime shared:7 master:2 - btrfs /dev/loop0 rw,ssd,subvolid=5\n",
    "46 22 0:41 /sub\\040path /mnt/part rw - btrfs /dev/loop2 ro,ssd\n47 22 0:42 / /mnt/x ro - xfs /dev/a\\134b rw,shutdown\n",
  ],
  mutate: textMutator([" - ", " ", "\n", ",ro", "emergency_ro", "shared:1 ", ...ESCAPES]),
  refusals: [],
  start: pure((input) => {
    const text = input.toString("utf8");
    const lines = text.split("\n").map((line) => {
      const [head = "", ...tails] = line.split(" - ");
      return { fields: head.split(" "), tail: (tails[0] ?? "").split(" ") };
    });
    const right = lines.filter(({ fields, tail }) => fields.length >= 5 && tail.length >= 3);
    const read = parseMounts(text);
    assert.equal(read.length, right.length, "a line is missing, or one too many is there");
    for (const [index, { mountPath, root, source, readOnly }] of read.entries()) {
      const { fields = [], tail = [] } = right[index] ?? {};
      assert.deepEqual(
        [root, mountPath, source],
        [fields[3], fields[4], tail[1]].map((one) => unescaped(one ?? "")),
      );
      assert.equal(readOnly, /(^|,)(ro|emergency_ro|shutdown)(,|$)/.test(tail[2] ?? ""));
    }
  }),
};

const swaps: FuzzTarget = {
  name: "the table of swap",
  parsers: ["src/agent/storage/btrfs/immovable-data.ts"],
  seeds: () => [
    "Filename\tType\tSize\tUsed\tPriority\n/swap\\040file file\t1048572\t0\t-2\n/dev/sda2 partition 1 0 -3\n",
  ],
  mutate: textMutator(["file ", "\tfile\t", " partition ", "\n", ...ESCAPES]),
  refusals: [],
  start: pure((input) => {
    const text = input.toString("utf8");
    const paths = swapfilePaths(text);
    assert.ok(paths.length <= text.split(/\sfile\s/).length - 1);
  }),
};

const USAGE = `/dev/mapper/pool-m1, ID: 1
   Device size:             1073741824
   Device slack:                     0
   Data,single:              113246208
   Unallocated:              640679936

/dev/loop2, ID: 2
   Device size:             2147483648
   Device slack:            1073741824
   Unallocated:             1073741824
`;
const SUPER = `superblock: bytenr=65536, device=/dev/loop0
magic\t\t\t_BHRfS_M [match]
fsid\t\t\t11111111-2222-4333-8444-555555555555
generation\t\t9
num_devices\t\t2
dev_item.uuid\t\tbbbbbbbb-2222-4333-8444-555555555555
dev_item.devid\t\t1
`;
const CHUNKS = `\titem 0 key (1 DEV_EXTENT 22020096) itemoff 16195 itemsize 48
\t\tdev extent chunk_tree 3
\t\tchunk_objectid 256 chunk_offset 22020096 length 8388608
\titem 1 key (1 DEV_EXTENT 30408704) itemoff 16147 itemsize 48
\t\tchunk_objectid 256 chunk_offset 30408704 length 268435456
`;

const btrfsTools: FuzzTarget = {
  name: "what the btrfs tools say",
  parsers: [
    ...["src/agent/storage/btrfs/immovable-data.ts", "src/agent/storage/btrfs/exclusive-operation.ts"],
    ...["src/agent/storage/span/device-identity.ts", "src/agent/storage/span/device-identity.ts"],
  ],
  seeds: () => [
    ...[USAGE, SUPER, CHUNKS, "ID 256 gen 7 top level 5 path a\nID 257 gen 8 top level 5 path ID 1\n"],
    // Once minutes of CPU, a device of less than no bytes, and more bytes than are whole numbers.
    "key (1 DEV_EXTENT 7)\n".repeat(4000),
    USAGE.replace("Device slack:                     0", "Device slack:            1073741825"),
    CHUNKS.replace("268435456", "9".repeat(20)),
    // Once device -1, or 0 of a superblock that names none.
    ...["-1", ""].map((devid) => SUPER.replace("devid\t\t1", `devid\t\t${devid}`)),
    "Balance on '/mnt' is running\n  DATA (flags 0x2): balancing, usage=25\n",
  ],
  mutate: textMutator([
    ...[
      "Device size: ",
      "Device slack: ",
      "Unallocated: ",
      ", ID: ",
      "\n",
      "\t",
      "item 7 key (1 DEV_EXTENT 7)",
      "chunk_offset 1 length 4",
    ],
    ...["num_devices\t", "generation\t", "[match]", "ID 1 ", "  METADATA (x): balancing"],
  ]),
  refusals: [],
  start: pure((input) => {
    const text = input.toString("utf8");
    const isBytes = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;
    for (const { devid, sizeBytes, unallocatedBytes } of parseDeviceUsage(text))
      assert.ok(
        [devid, sizeBytes, unallocatedBytes].every(isBytes),
        `device ${devid} has ${sizeBytes}, ${unallocatedBytes}`,
      );
    const fsid = "11111111-2222-4333-8444-555555555555";
    const identity = parseSuperblock(text, fsid);
    if (identity !== undefined) assert.ok([identity.devid, identity.generation, identity.deviceCount].every(isBytes));
    const endBytes = parseLastChunkEnd(text);
    assert.ok(endBytes === undefined || isBytes(endBytes), `the last chunk ends at ${endBytes}`);
    assert.equal(parseSubvolumes(text), [...`\n${text}`.matchAll(/\nID /g)].length);
    assert.equal(typeof hasOurFilters(text), "boolean");
  }),
  cost: 2,
};

function superblocks(type: KnownFilesystem): FuzzTarget {
  return {
    name: `superblocks of ${type}`,
    parsers: [
      ...["src/lvmd/volumes/reduce/read-signature.ts", "src/agent/storage/filesystem/superblocks.ts"],
      ...(type === "btrfs"
        ? ["src/agent/storage/filesystem/superblocks.ts", "src/agent/storage/block/take-copy.ts"]
        : []),
      ...(type === "ext4" ? ["src/agent/storage/filesystem/superblocks.ts"] : []),
    ],
    seeds: () => formatted(type),
    // Half of them with the right checksum: nothing of the others is looked at any further.
    mutate: (random, input) => {
      const block = mutateBlock(random, input);
      return random.chance(0.5) ? checksummed(type, block) : block;
    },
    refusals: ["SuperblockError", "StorageError", "Refused"],
    start: async (directory) => {
      const path = join(directory, "device");
      const writing = openSync(path, "w+");
      const device = await open(path, "r");
      const place = PLACES[type];
      return {
        take: async (input) => {
          ftruncateSync(writing, 0);
          writeSync(writing, input, 0, input.length, place);
          assertAgentsReading(type, path, input);
          const endBytes = await readFilesystemEnd(device, type, place + 4096);
          assert.ok(Number.isSafeInteger(endBytes) && endBytes > 0, `it ends at ${endBytes}`);
          assert.ok(hasRightChecksum(type, input), "a wrong checksum");
        },
        end: async () => {
          closeSync(writing);
          await device.close();
        },
      };
    },
    cost: 6,
  };
}

function assertAgentsReading(type: KnownFilesystem, path: string, input: Buffer): void {
  assertWholeMember({ fsType: type, name: "m", path, sizeBytes: Number.MAX_SAFE_INTEGER });
  if (type === "btrfs") assertBtrfs(path, input);
  if (type !== "ext4") return;
  const state = readExt4State(path);
  if (state === undefined) return;
  assert.equal(readExt4Bytes(path), state.sizeBytes);
}

function assertBtrfs(path: string, input: Buffer): void {
  const committed = readCommittedSize(path, PLACES.btrfs + 4096);
  if (committed !== undefined) assert.ok(hasRightChecksum("btrfs", input), "a wrong checksum");
  if (input.length < 4096) return;
  assert.ok(btrfsDeviceOfBlock(input) === undefined || btrfsDeviceOfBlock(input)?.fsid.length === 36);
  if (problemOfSuperblock(input, PLACES.btrfs) !== undefined) return;
  assert.ok(hasRightChecksum("btrfs", input), "a wrong checksum");
  const renamed = withFsid(input, "99999999-2222-4333-8444-555555555555");
  assert.equal(problemOfSuperblock(renamed, PLACES.btrfs), undefined);
  assert.deepEqual(withFsid(renamed, "99999999-2222-4333-8444-555555555555"), renamed);
}

export const NODE_TARGETS: readonly FuzzTarget[] = [
  ...[mounts, swaps, btrfsTools],
  ...[superblocks("btrfs"), superblocks("ext4"), superblocks("xfs")],
];
