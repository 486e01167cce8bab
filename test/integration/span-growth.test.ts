// Members whose driver agrees to expand them and leaves their devices as they are, as real drivers do: all three processes, real loop
// devices and btrfs. The volume does not fill up: a member is added, and the class is remembered until one grows again.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, openSync, readSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type LastOperation } from "../../src/contracts/kinds/filesystem-layout.ts";
import { VOLUME_POLICIES } from "../../src/contracts/kinds/volume-policy.ts";
import { GROWTH_FAILED_ANNOTATION, GROWTH_WORKED_ANNOTATION } from "../../src/contracts/names.ts";
import { MIB } from "../../src/contracts/quantities/quantity.ts";
import { GROWTH_MEMORY_MS } from "../../src/operator/decide/members/member-growth.ts";
import { aPolicySpec, EXTEND_AT_80 } from "../builders/policy.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { type MountedSpan, SHOP, type SpanStack, startSpanStack } from "../harness/span-stack.ts";
import { waitFor } from "../harness/wait-for.ts";

const LIMIT_MS = 600_000;
/** While the disk fills the agent waits for a device for 15 s; this is for a machine that is busy. */
const PATIENCE_MS = 300_000;
/** Where there is room it would wait for a minute. */
const LIMIT_OF_A_WAIT_MS = 45_000;
const CHUNK_BYTES = 32 * MIB;
/** So much of a chunk is written, which is compared afterwards; the rest of it takes its place only. */
const CONTENT_BYTES = MIB;
/** What a writer leaves, so that btrfs has room for its own. */
const MARGIN_BYTES = 160 * MIB;

describeReal("members whose driver does not grow their devices", STACK_PARTS, () => {
  let tested: SpanStack;

  beforeAll(async () => {
    tested = await startSpanStack();
    await tested.expandsMembers(true);
    tested.driver.growing.manner = "Never";
    await tested.stack.client.create("test/policy", VOLUME_POLICIES, {
      apiVersion: "tidemark.dev/v1alpha1",
      kind: "VolumePolicy",
      metadata: { namespace: SHOP, name: "grows" },
      spec: aPolicySpec({
        mode: { extend: "Enforce", shrink: "Recommend" },
        limits: { min: "1Gi", max: "8Gi" },
        rules: [EXTEND_AT_80],
        behavior: { extend: { cooldown: "0s", minStep: "256Mi" } },
      }),
    });
  }, LIMIT_MS);
  afterAll(() => tested.close(), LIMIT_MS);

  const conditions = async (name: string) =>
    (await tested.stack.client.get(FILESYSTEMS, { namespace: SHOP, name }))?.status?.conditions ?? [];
  const annotation = async (span: MountedSpan, key: string) => (await span.layout()).metadata.annotations?.[key];
  const sizes = async (span: MountedSpan) => (await span.layout()).spec.members?.map(({ size }) => size);
  /** As if the operator had settled the first volume's growth so long ago; nothing turns its clock. */
  const setFailure = async (sinceMs: number): Promise<void> => {
    const { items } = await tested.stack.client.list(FILESYSTEM_LAYOUTS);
    const failed = items.filter(({ metadata }) => metadata.annotations?.[GROWTH_FAILED_ANNOTATION] !== undefined);
    const annotations = { [GROWTH_FAILED_ANNOTATION]: new Date(Date.now() + sinceMs).toISOString() };
    expect(failed).toHaveLength(1);
    for (const { metadata } of failed)
      await tested.stack.client.mergePatch("test/failure", FILESYSTEM_LAYOUTS, metadata, { metadata: { annotations } });
  };
  /** Those that have waited for a device in vain. */
  const failedExtends = () =>
    tested.stack.processes.agent
      .log()
      .split("\n")
      .filter((line) => line.includes("Extend ended: Failed"))
      .map((line) => (JSON.parse(line) as { lastOperation: LastOperation }).lastOperation)
      .map(({ startedAt, endedAt, reason }) => ({ reason, waitedMs: Date.parse(endedAt) - Date.parse(startedAt) }));
  const expansions = ({ handle }: MountedSpan): string[] =>
    tested.driver.calls.filter((call) => call.startsWith("NodeExpandVolume") && call.includes(handle));
  const otherwise = async (span: MountedSpan): Promise<string> =>
    `${JSON.stringify(await span.layout())}\n${tested.stack.tellLogs()}`;

  /** Writes a chunk as soon as there is room for one, and never without; returns what was written, by path. */
  async function writeUntil(span: MountedSpan, totalBytes: number): Promise<Map<string, Buffer>> {
    const written = new Map<string, Buffer>();
    for (let bytes = 0; bytes < totalBytes; bytes += CHUNK_BYTES) {
      await waitFor(
        `room for another chunk after ${bytes / MIB} MiB`,
        () => {
          const { bavail, bsize } = statfsSync(span.path);
          return bavail * bsize >= CHUNK_BYTES + MARGIN_BYTES || undefined;
        },
        { limitMs: PATIENCE_MS, otherwise: () => otherwise(span) },
      );
      const path = join(span.path, `chunk-${bytes / MIB}`);
      const content = randomBytes(CONTENT_BYTES);
      writeFileSync(path, content);
      execFileSync("fallocate", ["--length", String(CHUNK_BYTES), path]);
      // Before that statfs does not count what was reserved.
      execFileSync("sync", ["--file-system", path]);
      written.set(path, content);
    }
    return written;
  }

  it(
    "get another member in their place, at the first failure, and the writer goes on",
    async () => {
      const span = await tested.mountedSpan("first", 1);
      const written = await writeUntil(span, 1536 * MIB);
      for (const [path, content] of written) expect(beginningOf(path).equals(content)).toBe(true);
      const { spec, status } = await span.layout();
      expect(spec.members?.[0]?.size).toBe("1Gi");
      expect(status?.members?.find(({ name }) => name === "m0")?.size).toBe("1Gi");
      expect(spec.members?.length).toBeGreaterThan(1);
      expect(await annotation(span, GROWTH_FAILED_ANNOTATION)).toBeDefined();
      const waits = failedExtends();
      expect(waits).toHaveLength(1);
      expect(waits[0]?.waitedMs).toBeLessThan(LIMIT_OF_A_WAIT_MS);
      const said = await conditions("first");
      expect(said.find(({ type }) => type === "Ready")).toMatchObject({ status: "True" });
      expect(said.find(({ type }) => type === "Stalled")).toMatchObject({ status: "False" });
    },
    LIMIT_MS,
  );

  it(
    "are not tried again soon: not in another volume of the class, nor after a restart of the operator",
    async () => {
      const { stack } = tested;
      await stack.processes.operator.stop();
      await stack.start("operator");
      const span = await tested.mountedSpan("second", 1);
      await writeUntil(span, 1024 * MIB);
      expect(await sizes(span)).toEqual(["1Gi", "1Gi"]);
      expect(expansions(span)).toEqual([]);
    },
    LIMIT_MS,
  );

  it(
    "grow again after an hour, where the driver was mended, in every volume of the class",
    async () => {
      tested.driver.growing.manner = "Promptly";
      await setFailure(-GROWTH_MEMORY_MS);
      for (const name of ["third", "fourth"]) {
        const span = await tested.mountedSpan(name, 1);
        await writeUntil(span, 1024 * MIB);
        expect(await sizes(span)).toEqual(["2Gi"]);
        expect(await annotation(span, GROWTH_WORKED_ANNOTATION)).toBeUndefined();
      }
    },
    LIMIT_MS,
  );

  it(
    "grow again at once in every volume of the class, where one without a place for another has grown",
    async () => {
      await setFailure(0);
      const full = await tested.mountedSpan("full", 1, { maxMembers: "1" });
      await writeUntil(full, 1024 * MIB);
      expect(await sizes(full)).toEqual(["2Gi"]);
      await waitFor("the layout to say that a growth worked", () => annotation(full, GROWTH_WORKED_ANNOTATION), {
        otherwise: () => otherwise(full),
      });
      const span = await tested.mountedSpan("fifth", 1);
      await writeUntil(span, 1024 * MIB);
      expect(await sizes(span)).toEqual(["2Gi"]);
    },
    LIMIT_MS,
  );
});

function beginningOf(path: string): Buffer {
  const content = Buffer.alloc(CONTENT_BYTES);
  const file = openSync(path, "r");
  readSync(file, content);
  closeSync(file);
  return content;
}
