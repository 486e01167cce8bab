import { describe, expect, it } from "@jest/globals";
import { LOCAL } from "../../../../../src/contracts/csi/driver.ts";
import type { CreateVolumeRequest } from "../../../../../src/contracts/gen/csi/v1/csi.ts";
import { GIB } from "../../../../../src/contracts/quantities/quantity.ts";
import { requireSame } from "../../../../../src/operator/csi/create/existing-volume.ts";
import { orderOf } from "../../../../../src/operator/csi/requests/volume-order.ts";
import { buildCreateVolumeRequest, mountCapability, PARAMETERS } from "../../../../builders/create-volume-request.ts";
import { buildLayout, type LayoutFields } from "../../../../builders/volume.ts";

const PARAMETERS_1GI = { ...PARAMETERS, initialSize: "1Gi" };

function judge(fields: Partial<CreateVolumeRequest>, layout: LayoutFields = {}): void {
  const request = buildCreateVolumeRequest({ parameters: PARAMETERS_1GI, ...fields });
  const order = orderOf(request, LOCAL);
  requireSame(buildLayout(layout), order, request.accessibilityRequirements);
}

describe("a volume that exists already", () => {
  it("is the same one when asked for in the same way", () => {
    expect(() => judge({})).not.toThrow();
  });

  it("stays the same one after it has grown", () => {
    const status = { members: [{ name: "m0", size: "5Gi", state: "Present" as const }] };
    expect(() => judge({}, { status })).not.toThrow();
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
    expect(() => judge(fields)).toThrow(
      expect.objectContaining({ code: "ALREADY_EXISTS", message: expect.stringContaining(text) }),
    );
  });

  it("is not given out again while it is being deleted", () => {
    const spec = { members: [{ name: "m0", state: "Removed" as const, source: {} }] };
    expect(() => judge({}, { spec })).toThrow(expect.objectContaining({ code: "ABORTED" }));
  });
});
