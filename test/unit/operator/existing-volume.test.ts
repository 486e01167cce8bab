import { describe, expect, it } from "@jest/globals";
import { LOCAL } from "../../../src/csi/driver.ts";
import { Refusal } from "../../../src/csi/refusal.ts";
import type { CreateVolumeRequest } from "../../../src/gen/csi/v1/csi.ts";
import { refusalOfExisting } from "../../../src/operator/csi/existing-volume.ts";
import { orderOf } from "../../../src/operator/csi/volume-order.ts";
import { GIB } from "../../../src/units/quantity.ts";
import { buildCreateVolumeRequest, mountCapability, PARAMETERS } from "../../builders/create-volume-request.ts";
import { buildLayout, type LayoutFields } from "../../builders/volume.ts";

const PARAMETERS_1GI = { ...PARAMETERS, initialSize: "1Gi" };

function judge(fields: Partial<CreateVolumeRequest>, layout: LayoutFields = {}): Refusal | undefined {
  const request = buildCreateVolumeRequest({ parameters: PARAMETERS_1GI, ...fields });
  const order = orderOf(request, LOCAL);
  if (order instanceof Refusal) throw new Error(order.message);
  return refusalOfExisting(buildLayout(layout), order, request.accessibilityRequirements);
}

describe("a volume that exists already", () => {
  it("is the same one when asked for in the same way", () => {
    expect(judge({})).toBeUndefined();
  });

  it("stays the same one after it has grown", () => {
    expect(judge({}, { status: { members: [{ name: "m0", size: "5Gi", state: "Present" }] } })).toBeUndefined();
  });

  const cases: [string, Partial<CreateVolumeRequest>, string][] = [
    [
      "another size",
      { capacityRange: { requiredBytes: 12 * GIB, limitBytes: 0 } },
      "size is 10Gi (10737418240 bytes), asked for is 12Gi",
    ],
    ["another initialSize", { parameters: { ...PARAMETERS, initialSize: "2Gi" } }, "initialSize is 1Gi"],
    ["a maxSize", { parameters: { ...PARAMETERS_1GI, maxSize: "20Gi" } }, "maxSize is not set, asked for is 20Gi"],
    [
      "another filesystem",
      { volumeCapabilities: [mountCapability("ext4")] },
      "filesystem type is btrfs, asked for is ext4",
    ],
    [
      "another claim",
      { parameters: { ...PARAMETERS_1GI, "csi.storage.k8s.io/pvc/name": "other" } },
      "claim is shop/data, asked for is shop/other",
    ],
    [
      "another node",
      {
        accessibilityRequirements: {
          requisite: [{ segments: { "topology.tidemark.dev/node": "node-2" } }],
          preferred: [],
        },
      },
      "it is on node node-1",
    ],
  ];
  it.each(cases)("is another one when asked for with %s", (_name, fields, text) => {
    const refusal = judge(fields);
    expect(refusal?.code).toBe("ALREADY_EXISTS");
    expect(refusal?.message).toContain(text);
  });

  it("is not given out again while it is being deleted", () => {
    const refusal = judge({}, { spec: { members: [{ name: "m0", state: "Removed", source: {} }] } });
    expect(refusal?.code).toBe("ABORTED");
  });
});
