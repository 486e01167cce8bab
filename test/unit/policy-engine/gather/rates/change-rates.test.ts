// How long what a volume's records show as under way counts as running.
import { describe, expect, it } from "@jest/globals";
import type { FilesystemLayout } from "../../../../../src/contracts/kinds/filesystem-layout.ts";
import { createChangeRates } from "../../../../../src/policy-engine/gather/rates/change-rates.ts";
import { buildClaim } from "../../../../builders/claim.ts";
import { engineCaches } from "../../../../fakes/engine-caches.ts";

const MINUTE_MS = 60_000;
const BEGAN_MS = Date.parse("2026-11-20T12:00:00Z");
const DECIDED_AT = new Date(BEGAN_MS).toISOString();
const TARGET = { size: "20Gi", from: "10Gi", epoch: 1, decidedAt: DECIDED_AT };

/** An ordinary claim of 10 GiB that asks for 20, and waits for its filesystem to be grown. */
function aClaim(spec: Partial<FilesystemLayout["spec"]>, stage: "NodeResizePending" | "ControllerResizeInProgress") {
  let nowMs = BEGAN_MS;
  const caches = engineCaches();
  const rates = createChangeRates(caches, { nowMs: () => nowMs, monotonicMs: () => nowMs });
  const claim = buildClaim({ name: "data-0", request: "20Gi" });
  const metadata = { ...claim.metadata, uid: "u" };
  const { namespace } = metadata;
  const annotate = (said: string, allocated: string = stage): void =>
    caches.claims.put({
      ...claim,
      metadata: { ...metadata, annotations: { said } },
      status: { capacity: { storage: "10Gi" }, allocatedResourceStatuses: { storage: allocated } },
    });
  annotate("first");
  caches.layouts.put({
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "FilesystemLayout",
    metadata: { name: "h" },
    spec: { claimRef: { namespace, name: "data-0", uid: "u" }, backend: "claim", ...spec },
  });
  const pass = (minutes: number): void => {
    nowMs += minutes * MINUTE_MS;
    rates.forgetSilent();
  };
  return { rates, annotate, pass, running: () => rates.running(undefined) };
}

describe("a resize of an ordinary claim", () => {
  const OURS = { target: TARGET, nodeName: "a" };

  it("runs for 10 minutes after it was last heard of, whatever else is written on its claim", () => {
    const { annotate, pass, running } = aClaim(OURS, "NodeResizePending");
    expect(running()).toBe(1);
    pass(9);
    annotate("second");
    expect(running()).toBe(1);
    pass(2);
    expect(running()).toBe(0);
    annotate("third");
    expect(running()).toBe(0);
  });

  it("is heard of where it comes further", () => {
    const { annotate, pass, running } = aClaim(OURS, "ControllerResizeInProgress");
    pass(9);
    annotate("second", "NodeResizePending");
    pass(9);
    expect(running()).toBe(1);
  });

  it("is heard of by its node, however late", () => {
    const { rates, pass, running } = aClaim(OURS, "NodeResizePending");
    pass(11);
    rates.goesOn("h");
    expect(running()).toBe(1);
  });

  it("takes no slot where its owner alone has asked for it", () => {
    expect(aClaim({ nodeName: "a" }, "ControllerResizeInProgress").running()).toBe(0);
    const earlier = { target: { ...TARGET, size: "10Gi", from: "5Gi" }, nodeName: "a" };
    expect(aClaim(earlier, "ControllerResizeInProgress").running()).toBe(0);
  });

  it("takes no slot while it waits for a pod", () => {
    expect(aClaim({ target: TARGET }, "NodeResizePending").running()).toBe(0);
    expect(aClaim({ target: TARGET }, "ControllerResizeInProgress").running()).toBe(1);
  });
});
