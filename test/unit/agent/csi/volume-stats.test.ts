import { describe, expect, it } from "@jest/globals";
import { statsOf } from "../../../../src/agent/csi/csi-node.ts";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildVolume, type VolumeChange } from "../../../builders/node-volume.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";

const reading = buildSampledReading();
const volumeOf = (change: VolumeChange = {}) => buildVolume(recordWithLayout(buildLayout(), undefined), change);

describe("the stats of a volume", () => {
  it("wait for the sampler's first reading of one that was just staged", async () => {
    const volume = volumeOf();
    const answer = statsOf(volume);
    volume.dispatch({ type: "ReadingArrived", reading });
    expect(await answer).toMatchObject({
      usage: [{ total: GIB, available: GIB / 2 }],
      volumeCondition: { abnormal: false },
    });
  });

  it("say that a filesystem does not answer which never did, without figures that nobody has", async () => {
    expect(await statsOf(volumeOf({ hung: true }))).toMatchObject({
      usage: [],
      volumeCondition: { abnormal: true },
    });
  });

  it("keep the last figures of one that answers no more", async () => {
    const { usage, volumeCondition } = await statsOf(volumeOf({ reading, hung: true }));
    expect(usage).toHaveLength(1);
    expect(volumeCondition?.abnormal).toBe(true);
  });
});
