import { describe, expect, it } from "@jest/globals";
import { findFresh } from "../../../../../src/lvmd/volumes/reduce/find-by-uuid.ts";
import type { VolumeHost } from "../../../../../src/lvmd/volumes/volume-host.ts";
import { hostWithReport } from "../../host-with-report.ts";
import { deviceClass, GIB, groupOf, volume } from "../../lvm-facts.ts";

const THICK = deviceClass({ name: "thick" });
const THIN = deviceClass({ name: "thin", thinPool: { name: "pool", overprovisionRatio: 10 } });
const GROUP = groupOf(
  [GIB],
  [
    volume({ name: "pool", attr: "twi-aotz--", chunkBytes: 65_536 }),
    volume({ name: "of-pool", pool: "pool", attr: "Vwi-a-tz--", device: undefined }),
    volume({ name: "linear", device: undefined }),
    volume({ name: "of-another", pool: "another", attr: "Vwi-a-tz--", device: undefined }),
  ],
);

/** A volume group that a thick and a thin class share. */
function hostOf(...classes: readonly (typeof THICK)[]): VolumeHost {
  const host = hostWithReport(THICK, [GROUP]);
  return { ...host, settings: () => ({ ...host.settings(), deviceClasses: classes }) };
}

describe("the volume of a reduction, in a group that two classes share", () => {
  // Of a thick volume the end is zeroed, of a thin one discarded: the wrong class would do the wrong thing to it.
  it.each([
    ["thick first", [THICK, THIN]],
    ["thin first", [THIN, THICK]],
  ])("is found as one of its own class, %s", async (_order, classes) => {
    const host = hostOf(...classes);
    const classOf = async (uuid: string) => (await findFresh(host, uuid))?.state.deviceClass.name;
    expect(await classOf("uuid-of-pool")).toBe("thin");
    expect(await classOf("uuid-linear")).toBe("thick");
  });

  it.each([
    ["of a pool that no class points at", "uuid-of-another", [THICK, THIN]],
    ["thick, where only a thin class points at its group", "uuid-linear", [THIN]],
    ["thin, where only a thick class points at its group", "uuid-of-pool", [THICK]],
  ])("is not found when it is %s", async (_what, uuid, classes) => {
    expect(await findFresh(hostOf(...classes), uuid)).toBeUndefined();
  });
});
