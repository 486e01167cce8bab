import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { newGrant, sendGuidance } from "../../../../src/policy-engine/apply/precautions.ts";
import type { Gathered } from "../../../../src/policy-engine/gather/gather-facts.ts";
import { createVolumeRegistry, type Guided } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { aVolume, NOW_MS } from "../../../builders/facts.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";

const guidance = (usedBytes: number): Guided => ({ usedBytes, policy: undefined, sizeBytes: GIB, atMs: NOW_MS });

describe("guidance", () => {
  it("is sent once, again when it changes, and again until an agent has taken it", () => {
    const told: number[] = [];
    let connected = false;
    const samples = {
      guide: (_node: string, { nextExtendUsedBytes }: { nextExtendUsedBytes: number }) => {
        if (connected) told.push(nextExtendUsedBytes);
        return connected;
      },
    };
    const state = createVolumeRegistry().get("fs-a");
    const gathered = { layout: buildLayout({}, { nodeName: "node-a" }) } as Gathered;
    const send = (usedBytes: number): void => sendGuidance(samples, state, gathered, guidance(usedBytes));
    send(500);
    connected = true;
    send(500);
    expect(told).toEqual([500]);
    send(500);
    send(600);
    expect(told).toEqual([500, 600]);
  });
});

describe("a grant that stands while no reading can be had", () => {
  const NO_BUDGET = Number.POSITIVE_INFINITY;
  const emergency = { size: "12Gi", minAvailable: "1Gi", expiry: "2099-01-01T00:00:00Z", epoch: 3 };
  const change = (limitBytes: number, filesystem: { mounted?: boolean } = {}, shareBytes = NO_BUDGET) => {
    const facts = aVolume({ reading: "none", filesystem });
    const gathered = { facts, layout: buildLayout({ emergency }) } as Gathered;
    return newGrant(gathered, undefined, { shareBytes, limitBytes }, 4);
  };

  it("goes on standing, since this is when it is needed most", () => {
    expect(change(12 * GIB)).toBeUndefined();
    expect(change(12 * GIB, {}, 11 * GIB)).toBeUndefined();
  });

  it("is lowered with the policy's max, and taken back with the policy", () => {
    expect(change(11 * GIB)?.to).toMatchObject({ sizeBytes: 11 * GIB, epoch: 4 });
    expect(change(10 * GIB)).toEqual({ to: undefined });
    expect(change(0)).toEqual({ to: undefined });
  });

  it("leaves its share to others while it is not mounted", () => {
    expect(change(12 * GIB, { mounted: false }, 11 * GIB)?.to).toMatchObject({ sizeBytes: 11 * GIB });
  });
});
