// What the engine's writes leave on the API server where somebody else was quicker: right before one of them the test acts.
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { FILESYSTEMS, type Filesystem } from "../../../src/api/filesystem.ts";
import { applyTarget, applyTrim, type TargetToApply } from "../../../src/policy-engine/process/apply.ts";
import { GIB } from "../../../src/units/quantity.ts";
import { interposed } from "../../fakes/interposed-client.ts";
import { type Cluster, makeVolume, startCluster } from "./engine-under-test.ts";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster.stop());

async function live(name: string): Promise<Filesystem> {
  const filesystem = await cluster.client.get(FILESYSTEMS, { namespace: "default", name });
  if (filesystem === undefined) throw new Error(`no Filesystem ${name}`);
  return filesystem;
}

const target = (sizeGib: number, decidedAt: string, epoch = 3): TargetToApply => ({
  sizeBytes: sizeGib * GIB,
  fromBytes: GIB,
  epoch,
  decidedAt,
});

describe("a target", () => {
  it("is not written to a Filesystem that was deleted and made again", async () => {
    await makeVolume(cluster, "remade", GIB);
    const before = await live("remade");
    await cluster.client.delete("test/filesystem", FILESYSTEMS, { namespace: "default", name: "remade" });
    await makeVolume(cluster, "remade", GIB);
    const write = applyTarget(cluster.client, before, target(2, "2026-11-20T12:00:00.000Z"), undefined);
    await expect(write).rejects.toMatchObject({ reason: "Invalid" });
    expect((await live("remade")).spec.target).toBeUndefined();
  });
});

describe("trims", () => {
  it.each([
    ["of its own", 3],
    ["of a newer leader", 4],
  ])("leave a target %s that was written right before them", async (_whose, epoch) => {
    const name = `trimmed-${epoch}`;
    await makeVolume(cluster, name, GIB);
    const cached = await live(name);
    await applyTarget(cluster.client, cached, target(2, "2026-11-20T12:00:00.000Z"), undefined);
    const newer = target(4, "2026-11-20T12:00:01.000Z", epoch);
    const late = interposed(
      cluster.client,
      (call) => call === "apply filesystems",
      () => applyTarget(cluster.client, cached, newer, undefined),
    );
    await expect(applyTrim(late.client, cached, { every: "1d" }, 3)).rejects.toMatchObject({ reason: "Conflict" });
    expect((await live(name)).spec).toMatchObject({ target: { size: "4Gi", epoch } });
  });

  it("are written beside the target as it stands, not as it was cached", async () => {
    await makeVolume(cluster, "lagging", GIB);
    const cached = await live("lagging");
    await applyTarget(cluster.client, cached, target(2, "2026-11-20T12:00:00.000Z"), undefined);
    await applyTrim(cluster.client, cached, { every: "1d" }, 3);
    expect((await live("lagging")).spec).toMatchObject({ target: { size: "2Gi" }, trim: { every: "1d" } });
  });
});
