import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { INITIAL_SIZE, live } from "../harness/lifecycle.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { createStack, type Stack } from "../harness/stack.ts";
import { changesIn, endTraced, straceTo } from "../harness/strace.ts";
import { type SyncedRename, syncedRenames } from "../harness/synced-renames.ts";

/** Which points stand for which change: each passage of one of them is one such change, and there is no other. */
const CHANGES: readonly (readonly [change: RegExp, points: readonly string[]])[] = [
  [/^run \S+\/losetup --find/, ["stage/attach"]],
  [/^run \S+\/losetup --set-capacity/, ["extend/refresh-loop", "shrink/refresh-loop", "stage/refresh-loop"]],
  [/^run \S+\/losetup --detach/, ["unstage/detach"]],
  [/^run \S+\/mkfs\.btrfs -q -U/, ["stage/format"]],
  [/^run \S+\/mount -t/, ["stage/mount"]],
  [/^run \S+\/mount --bind/, ["publish/bind"]],
  [/^run \S+\/umount \//, ["unstage/unmount", "unpublish/unmount"]],
  [/^run \S+\/rmdir \//, ["unpublish/remove-directory"]],
  [/^run \S+\/btrfs filesystem resize \d+:/, ["extend/resize-filesystem", "shrink/resize-filesystem"]],
  [/^run \S+\/btrfs filesystem resize cancel/, ["shrink/cancel-resize"]],
  [/^run \S+\/btrfs balance start -dusage/, ["shrink/balance"]],
  [/^run \S+\/btrfs device scan --forget/, ["unstage/forget"]],
  [/^run \S+\/fstrim/, ["trim/fstrim"]],
  [/^run \S+\/flock/, ["agent-lock/acquire"]],
  [/^open(at)? state\/locks\/\S+ .*O_EXCL/, ["agent-lock/create-file"]],
  [/^rename\w* state\/volumes\/\S+\.json$/, ["agent-record/write"]],
  [/^unlink\w* state\/volumes\/\S+\.json$/, ["agent-record/remove"]],
  [/^mkdir\w* members\/\.records$/, ["stage/make-record-directory"]],
  [/^open(at)? members\/[^/]+\.img .*O_EXCL/, ["stage/create-member"]],
  [/^open(at)? members\/[^/]+\.img O_RDWR/, ["stage/size-member", "extend/grow-file", "shrink/truncate-file"]],
  [/^rename\w* members\/\.records\//, ["stage/record-formatting", "stage/record-formatted", "stage/record-mounted"]],
  [/^unlink\w* members\/[^/]+\.img$/, ["remove/member"]],
  [/^unlink\w* members\/\.records\//, ["remove/record"]],
  [/^mkdir\w* kubelet\/plugins\/\S+$/, ["stage/make-mount-point"]],
  [/^mkdir\w* kubelet\/pods\/\S+$/, ["publish/make-directory"]],
];

/** What needs no point: programs that only read, the making of our directories at start, and files that a rename then puts in place. */
const NO_EFFECT: readonly RegExp[] = [
  /^run \S+\/losetup --noheadings --output \w+ --associated/,
  /^run \S+\/wipefs --noheadings --output/,
  /^run \S+\/btrfs inspect-internal min-dev-size/,
  /^run \S+\/btrfs subvolume list /,
  /^run \S+\/sync --file-system/,
  /^mkdir\w* (members|state\/volumes|state\/locks)$/,
  /^open(at)? (state\/volumes|members\/\.records)\/\S+\.new .*O_EXCL/,
  // Of a record's write and removal: what was synced of it stays while it is not synced itself.
  /^(link|unlink|rename)\w* (state\/volumes|members\/\.records)\/\S+\.(synced|second)$/,
];

describeReal("an agent under strace, over a volume's whole life", [...STACK_PARTS, "strace"], () => {
  let stack: Stack;
  let changes: readonly string[] = [];
  let passed: readonly string[] = [];
  let records: readonly SyncedRename[] = [];

  beforeAll(async () => {
    stack = await createStack({ initialSize: INITIAL_SIZE });
    const [tracePath, logPath] = [join(stack.directory, "agent.trace"), join(stack.directory, "agent.effects")];
    await Promise.all([
      stack.start("operator"),
      stack.start("policy-engine"),
      stack.start("agent", { TIDEMARK_EFFECT_LOG: logPath }, straceTo(tracePath)),
    ]);
    await live(stack, "plain", "traced", { before: async () => undefined, after: async () => undefined });
    // All that it has begun is in both by its end, and not before.
    await endTraced(stack.processes.agent);
    const logged = (path: string): boolean => /\/agent\.effects( |$)/.test(path);
    changes = changesIn(tracePath, stack.directory).filter((change) => !logged(change));
    records = syncedRenames(tracePath, stack.directory);
    passed = readFileSync(logPath, "utf8")
      .split("\n")
      .filter((line) => line.endsWith("/before"));
  });

  afterAll(() => stack.close());

  it("starts no program and changes no file that is not known", () => {
    const known = [...CHANGES.map(([change]) => change), ...NO_EFFECT];
    const ours = changes.filter((change) => /^run |^\w+ (members|state|kubelet)\b/.test(change));
    expect(ours.filter((change) => !known.some((pattern) => pattern.test(change)))).toEqual([]);
  });

  it.each(CHANGES.map(([change, points]) => ({ change, points })))(
    "does what $points stand for as often as it passes them",
    ({ change, points }) => {
      const times = passed.filter((line) => points.includes(line.slice(0, -"/before".length))).length;
      expect(changes.filter((done) => change.test(done))).toHaveLength(times);
    },
  );

  /** Below this directory of the stack; whether file and directory were synced. */
  const syncsOf = (directory: string): (readonly [file: boolean, directory: boolean])[] =>
    records
      .filter(({ path }) => path.startsWith(join(stack.directory, directory)))
      .map(({ fileSynced, directorySynced }) => [fileSynced, directorySynced] as const);

  it("has each record of a member on the disk before it goes on: a power cut must not leave a filesystem that nothing knows of", () => {
    const syncs = syncsOf("members/.records");
    expect(syncs.length).toBeGreaterThan(0);
    expect(syncs.filter(([file, directory]) => !file || !directory)).toEqual([]);
  });

  it("has the volume's own record there from its first staging on, and syncs no record of an operation, which nothing waits for", () => {
    const syncs = syncsOf("state/volumes");
    expect(syncs[0]).toEqual([true, true]);
    expect(syncs.filter(([file, directory]) => file !== directory)).toEqual([]);
    expect(syncs).toContainEqual([false, false]);
  });

  it("has grown and shrunk the filesystem meanwhile", () => {
    expect(passed).toEqual(expect.arrayContaining(["extend/resize-filesystem/before", "shrink/truncate-file/before"]));
  });
});
