// Members whose driver agrees to expand them and leaves their devices as they are, as real drivers do: all three processes, real loop
// devices and btrfs. The volume does not fill up: a member is added, and the class is remembered.
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FILESYSTEMS } from "../../src/api/filesystem.ts";
import { GROWTH_FAILED_ANNOTATION } from "../../src/api/names.ts";
import { VOLUME_POLICIES } from "../../src/api/volume-policy.ts";
import { MIB } from "../../src/units/quantity.ts";
import { aPolicySpec, EXTEND_AT_80 } from "../builders/policy.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { type MountedSpan, SHOP, type SpanStack, startSpanStack } from "../harness/span-stack.ts";
import { waitFor } from "../harness/wait-for.ts";

const LIMIT_MS = 600_000;
/** The agent waits a minute for a device; this is for a machine that is busy. */
const PATIENCE_MS = 300_000;
const CHUNK_BYTES = 32 * MIB;
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
  const expansions = ({ handle }: MountedSpan): string[] =>
    tested.driver.calls.filter((call) => call.startsWith("NodeExpandVolume") && call.includes(handle));
  const otherwise = async (span: MountedSpan): Promise<string> =>
    `${JSON.stringify(await span.layout())}\n${tested.stack.tellLogs()}`;

  /** Writes a chunk as soon as there is room for one, and never without; returns what was written, by path. */
  async function writeUntil(span: MountedSpan, totalBytes: number): Promise<Map<string, string>> {
    const written = new Map<string, string>();
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
      const content = randomBytes(CHUNK_BYTES);
      writeFileSync(path, content, { flush: true });
      written.set(path, createHash("sha256").update(content).digest("hex"));
    }
    return written;
  }

  it(
    "get another member in their place, at the first failure, and the writer goes on",
    async () => {
      const span = await tested.mountedSpan("first", 1);
      const written = await writeUntil(span, 1536 * MIB);
      for (const [path, digest] of written)
        expect(createHash("sha256").update(readFileSync(path)).digest("hex")).toBe(digest);
      const { spec, status } = await span.layout();
      expect(spec.members?.[0]?.size).toBe("1Gi");
      expect(status?.members?.find(({ name }) => name === "m0")?.size).toBe("1Gi");
      expect(spec.members?.length).toBeGreaterThan(1);
      expect(await annotation(span, GROWTH_FAILED_ANNOTATION)).toBeDefined();
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
      expect((await span.layout()).spec.members?.map(({ size }) => size)).toEqual(["1Gi", "1Gi"]);
      expect(expansions(span)).toEqual([]);
    },
    LIMIT_MS,
  );
});
