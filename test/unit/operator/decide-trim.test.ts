import { describe, expect, it } from "@jest/globals";
import { decideTrim } from "../../../src/operator/volume/decide-trim.ts";
import { changedLayout } from "../../../src/operator/volume/layout-fields.ts";
import { buildFilesystem, buildLayout } from "../../builders/volume.ts";

const daily = { every: "24h" };
const hourly = { every: "1h" };

describe("the trims that the policy-engine asks for", () => {
  it.each(["loop", "lvm"] as const)("are copied to the layout of a %s volume", (backend) => {
    const plan = decideTrim(buildLayout({ spec: { backend } }), buildFilesystem({ trim: daily }));
    expect(plan).toEqual({ do: "copy", trim: daily });
  });

  it("replace those that stand, and are taken away with them", () => {
    const layout = buildLayout({ spec: { trim: daily } });
    expect(decideTrim(layout, buildFilesystem({ trim: hourly }))).toEqual({ do: "copy", trim: hourly });
    expect(decideTrim(layout, buildFilesystem())).toEqual({ do: "copy", trim: undefined });
    const written = JSON.parse(JSON.stringify(changedLayout(layout, { trim: undefined }))) as { spec: object };
    expect(written.spec).not.toHaveProperty("trim");
    expect(written.spec).toHaveProperty("members");
  });

  it("are left as they are where they stand already, or are not wanted and not there", () => {
    expect(decideTrim(buildLayout({ spec: { trim: daily } }), buildFilesystem({ trim: daily })).do).toBe("keep");
    expect(decideTrim(buildLayout(), buildFilesystem()).do).toBe("keep");
  });

  it.each(["span", "claim"] as const)("are none of a volume of the backend %s", (backend) => {
    expect(decideTrim(buildLayout({ spec: { backend } }), buildFilesystem({ trim: daily })).do).toBe("keep");
  });

  it("are none of a raw block volume", () => {
    const layout = buildLayout({ spec: { backend: "lvm", volumeMode: "Block" } });
    expect(decideTrim(layout, buildFilesystem({ trim: daily })).do).toBe("keep");
  });

  it("are nothing to a volume that is being deleted", () => {
    const removing = buildLayout({ spec: { members: [{ name: "m0", state: "Removed", source: {} }] } });
    expect(decideTrim(removing, buildFilesystem({ trim: daily })).do).toBe("keep");
  });
});
