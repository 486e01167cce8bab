// The numbers of leaders, where an agent lies about the highest that it has seen: one node must not use them up for the whole cluster.
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { FILESYSTEM_LAYOUTS } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import { EPOCH_MAX } from "../../../src/contracts/schema/schema.ts";
import { waitFor } from "../../harness/wait-for.ts";
import { type Cluster, startCluster, startEngine } from "./engine-under-test.ts";

let cluster: Cluster;
beforeEach(async () => {
  cluster = await startCluster();
});
afterEach(() => cluster.stop());

const layoutWith = async (epoch: number, where: "status" | "target"): Promise<void> => {
  const metadata = { name: "fs-5c0ffee5-0000-4000-8000-000000000000" };
  const layout = { apiVersion: API_VERSION, kind: "FilesystemLayout", metadata };
  const target = { size: "1Gi", from: "1Gi", epoch, decidedAt: "2026-01-01T00:00:00Z" };
  const spec = where === "target" ? { backend: "span", target } : { backend: "span" };
  const options = { fieldManager: FIELD_MANAGERS.operator, force: true };
  await cluster.client.apply("test/layout", FILESYSTEM_LAYOUTS, { ...layout, spec }, options);
  if (where === "target") return;
  const told = { ...layout, status: { epoch } };
  const status = { fieldManager: FIELD_MANAGERS.agent, force: true, subresource: "status" } as const;
  await cluster.client.apply("test/status", FILESYSTEM_LAYOUTS, told, status);
};

/** Of one replica after the other; each hears of the lie. */
async function leadOnce(hello: number): Promise<number> {
  const engine = await startEngine(cluster);
  try {
    await waitFor("a leader", () => engine.leadership.epoch());
    engine.leadership.agentKnows(hello);
    return await waitFor("a leader", () => engine.leadership.epoch());
  } finally {
    await engine.stop();
  }
}

it.each<[string, (epoch: number) => Promise<void>]>([
  ["on its stream", async () => {}],
  ["in a layout's status", (epoch) => layoutWith(epoch, "status")],
  ["by a target that carries on from there", (epoch) => layoutWith(epoch, "target")],
])(
  "are there for leaders to come when an agent tells the last of them %s",
  async (where, tell) => {
    const last = EPOCH_MAX - 1;
    await tell(last);
    const epochs: number[] = [];
    for (let replica = 0; replica < 3; replica += 1) epochs.push(await leadOnce(where === "on its stream" ? last : 0));
    expect(Math.max(...epochs)).toBeLessThan(last);
    expect(new Set(epochs).size).toBe(3);
  },
  120_000,
);

it("are above what an agent has seen of a leader that a backup has forgotten", async () => {
  await layoutWith(1000, "status");
  expect(await leadOnce(0)).toBeGreaterThan(1000);
  expect(await leadOnce(2000)).toBeGreaterThan(1000);
});
