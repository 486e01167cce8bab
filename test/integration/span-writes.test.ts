// What one extend of a span by a new member costs the API server: all three processes, real loop devices and btrfs, and every request
// counted that changes an object, refused ones, too. Events and leases are written at their own times.
import { execFileSync } from "node:child_process";
import { existsSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { VOLUME_POLICIES } from "../../src/contracts/kinds/volume-policy.ts";
import { MIB } from "../../src/contracts/quantities/quantity.ts";
import { aPolicySpec } from "../builders/policy.ts";
import { passagesIn } from "../harness/doomed-process.ts";
import { describeReal, STACK_PARTS } from "../harness/real-parts.ts";
import { type MountedSpan, SHOP, type SpanStack, startSpanStack } from "../harness/span-stack.ts";
import { STACK_PROCESSES, type StackProcess } from "../harness/stack.ts";
import { waitFor } from "../harness/wait-for.ts";

const LIMIT_MS = 600_000;
/** Longer than any of the three leaves untold what is only on its way. */
const QUIET_MS = 7000;
/** An extend that takes longer says that it is on its way, in writes of its own. */
const SOON_MS = 2000;
const CHUNK_BYTES = 32 * MIB;
const MEMBERS_LIMIT = 4;

/** In the order in which one waits for the other; each is recorded intent, or what such an intent has brought about. */
const WRITES = [
  "policy-engine target/apply-filesystem",
  "operator carry-target/layout",
  "operator member/create-claim",
  "operator member/keep-volume",
  "operator member/attach",
  "operator member/record-sources",
  "agent agent-status/apply",
  "agent agent-status/apply",
];
/** After the end, in any order. */
const LAST_WRITES = ["operator report-status/filesystem", "policy-engine grant/apply-layout"];

/** Of effects that are no requests to the API server, or belong to no extend. */
const ELSEWHERE =
  /^(event|lease|node-storage|capacity|agent-record|agent-lock|agent-samples|agent-state|span|extend|trim|member-guard|consolidation)\//;

interface Extend {
  readonly tookMs: number;
  readonly writes: readonly string[];
}

describeReal("an extend of a span by a new member", STACK_PARTS, () => {
  let tested: SpanStack;
  const logOf = (name: StackProcess): string => join(tested.stack.directory, `${name}.effects`);

  beforeAll(async () => {
    tested = await startSpanStack();
    for (const name of STACK_PROCESSES) {
      await tested.stack.processes[name].stop();
      await tested.stack.start(name, { TIDEMARK_EFFECT_LOG: logOf(name) });
    }
    await tested.stack.client.create("test/policy", VOLUME_POLICIES, {
      apiVersion: "tidemark.dev/v1alpha1",
      kind: "VolumePolicy",
      metadata: { namespace: SHOP, name: "grows" },
      spec: aPolicySpec({
        mode: { extend: "Enforce", shrink: "Recommend" },
        limits: { min: "1Gi", max: "8Gi", minAvailable: "64Mi" },
        rules: [{ name: "extend", action: "Extend", when: "volume.usedRatio >= 0.8", by: "1Gi" }],
        behavior: { extend: { cooldown: "0s", minStep: "1Gi" } },
      }),
    });
  }, LIMIT_MS);
  afterAll(() => tested.close(), LIMIT_MS);

  /** In the order in which they are asked for, as far as looks every few milliseconds show it. */
  function followWrites(): { readonly writes: string[]; stop(): void } {
    const seen = new Map<StackProcess, number>();
    const writes: string[] = [];
    const look = (isNew: boolean): void => {
      for (const name of STACK_PROCESSES) {
        const all = existsSync(logOf(name)) ? passagesIn(logOf(name)) : [];
        const fresh = all.slice(seen.get(name) ?? 0).filter((line) => line.endsWith("/before"));
        seen.set(name, all.length);
        const points = fresh.map((line) => line.slice(0, -"/before".length)).filter((point) => !ELSEWHERE.test(point));
        if (isNew) writes.push(...points.map((point) => `${name} ${point}`));
      }
    };
    look(false);
    const timer = setInterval(() => look(true), 10);
    const stop = (): void => {
      clearInterval(timer);
      look(true);
    };
    return { writes, stop };
  }

  /** Fills it until it is larger, and waits until nothing more is said of it. */
  async function extend(span: MountedSpan): Promise<Extend> {
    await sleep(QUIET_MS);
    const followed = followWrites();
    const { blocks } = statfsSync(span.path);
    let crossedMs: number | undefined;
    for (let part = 0; statfsSync(span.path).blocks === blocks; part += 1) {
      const { bavail } = statfsSync(span.path);
      if ((blocks - bavail) / blocks < 0.8) {
        const path = join(span.path, `${blocks}-${part}`);
        execFileSync("fallocate", ["--length", String(CHUNK_BYTES), path]);
        execFileSync("sync", ["--file-system", span.path]);
      } else {
        crossedMs ??= performance.now();
        await sleep(10);
      }
    }
    const tookMs = performance.now() - (crossedMs ?? performance.now());
    await sleep(QUIET_MS);
    followed.stop();
    return { tookMs, writes: followed.writes };
  }

  it(
    "is ten requests: what records an intent before its effect, and the ends of all of it",
    async () => {
      const span = await tested.mountedSpan("span", 1, { strategy: "AddMember" });
      await waitFor("its grant", async () => (await span.layout()).spec.emergency);
      for (let members = 1; members < MEMBERS_LIMIT; members += 1) {
        const { tookMs, writes } = await extend(span);
        // A busy machine adds only what says that an extend is on its way.
        expect(writes).toEqual(expect.arrayContaining([...WRITES, ...LAST_WRITES]));
        if (tookMs > SOON_MS) continue;
        expect([...writes].sort()).toEqual([...WRITES, ...LAST_WRITES].sort());
        expect(writes.filter((write) => write.startsWith("operator")).slice(0, 5)).toEqual(WRITES.slice(1, 6));
        return;
      }
    },
    LIMIT_MS,
  );
});
