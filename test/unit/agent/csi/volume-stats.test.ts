import { describe, expect, it } from "@jest/globals";
import { statsOf } from "../../../../src/agent/csi/volume-stats.ts";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { newVolumeState } from "../../../../src/agent/volumes/volume-state.ts";
import { GIB } from "../../../../src/units/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";

const reading = buildSampledReading();
const newState = () => newVolumeState(recordWithLayout(buildLayout(), undefined), true);

describe("the stats of a volume", () => {
  it("wait for the sampler's first reading of one that was just staged", async () => {
    const state = newState();
    const answer = statsOf(state);
    state.reading = reading;
    expect(await answer).toMatchObject({
      usage: [{ total: GIB, available: GIB / 2 }],
      volumeCondition: { abnormal: false },
    });
  });

  it("say that a filesystem does not answer which never did, without figures that nobody has", async () => {
    expect(await statsOf({ ...newState(), hung: true })).toMatchObject({
      usage: [],
      volumeCondition: { abnormal: true },
    });
  });

  it("keep the last figures of one that answers no more", async () => {
    const { usage, volumeCondition } = await statsOf({ ...newState(), reading, hung: true });
    expect(usage).toHaveLength(1);
    expect(volumeCondition?.abnormal).toBe(true);
  });
});
