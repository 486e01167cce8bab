// Windows that are too short for a shrink's first step, in the running engine: what it remembers of them, and the next engine knows.
import { expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createEngineMetrics } from "../../../../src/policy-engine/metrics.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";
import { BudgetedNamespace } from "../../../harness/budgeted-namespace.ts";

const metrics = createEngineMetrics(() => true);
/** Ten minutes of each hour; the test begins at 12:00. */
const HOURLY = { cron: "0 * * * *", duration: "10m", timeZone: "UTC" };
const policyWith = (duration: string) =>
  aPolicy({
    mode: { extend: "Enforce", shrink: "Enforce" },
    limits: { min: "1Gi", max: "1000Gi", minAvailable: "512Mi" },
    rules: [EXTEND_AT_80, { name: "instant", action: "Shrink", when: "volume.usedRatio < 0.3", targetUsed: "50%" }],
    behavior: { shrink: { cooldown: "0s", stabilization: "0s", windows: [{ ...HOURLY, duration }] } },
  });

function shrinking() {
  const namespace = new BudgetedNamespace(
    1000 * GIB,
    [{ sizeBytes: 16 * GIB, usedRatio: 0.1 }],
    metrics,
    policyWith("10m"),
  );
  let minute = 0;
  const minutes = async (count: number): Promise<void> => {
    for (let passed = 0; passed < count; passed += 1) {
      minute += 1;
      namespace.tick(60);
      await namespace.decide();
      namespace.watch();
    }
  };
  /** Its node begins what is asked for by then, and stops it at its end without a first step. */
  const window = async (): Promise<void> => {
    await minutes(2);
    expect(namespace.targetOf("v0")?.size).not.toBe("16Gi");
    namespace.nodeBegins("v0");
    namespace.watch();
    await minutes(10);
    expect(namespace.targetOf("v0")).toMatchObject({ size: "16Gi", from: "16Gi" });
    namespace.nodeStops("v0");
    namespace.watch();
    await minutes(60 - (minute % 60));
  };
  return { namespace, minutes, window };
}

it("a shrink whose window closes is stopped, and decided again in the next window", async () => {
  const { namespace, minutes } = shrinking();
  await minutes(1);
  namespace.nodeBegins("v0");
  namespace.watch();
  await minutes(8);
  expect(namespace.targetOf("v0")?.size).not.toBe("16Gi");
  await minutes(2);
  expect(namespace.targetOf("v0")).toMatchObject({ size: "16Gi", from: "16Gi" });
  expect(namespace.scalingOf("v0")).toMatchObject({
    reason: "OutsideWindow",
    nextEligibleTime: new Date(NOW_MS + 3_600_000).toISOString(),
    missedWindows: { size: "16Gi", policy: "shop/default" },
  });
  namespace.nodeStops("v0");
  namespace.watch();
  await minutes(52);
  expect(namespace.targetOf("v0")?.size).not.toBe("16Gi");
});

it("a shrink that was only asked for when its window closed has not missed it", async () => {
  const { namespace, minutes } = shrinking();
  namespace.use("v0", 0.5);
  await minutes(9);
  namespace.use("v0", 0.1);
  namespace.tick(50);
  await namespace.decide();
  namespace.watch();
  expect(namespace.targetOf("v0")?.size).not.toBe("16Gi");
  namespace.tick(15);
  await namespace.decide();
  namespace.watch();
  expect(namespace.targetOf("v0")).toMatchObject({ size: "16Gi", from: "16Gi" });
  namespace.tick(60);
  await namespace.decide();
  expect(namespace.scalingOf("v0")?.missedWindows).toBeUndefined();
});

it("a shrink that two windows in a row ended before its first step is not begun again, after a restart, too", async () => {
  const { namespace, minutes, window } = shrinking();
  await window();
  await window();
  expect(namespace.scalingOf("v0")?.missedWindows?.decidedAt).toHaveLength(2);
  await minutes(3);
  expect(namespace.reasonOf("v0")).toBe("WindowTooShort");
  expect(namespace.targetOf("v0")?.size).toBe("16Gi");
  namespace.restart();
  await minutes(3);
  expect(namespace.reasonOf("v0")).toBe("WindowTooShort");
  namespace.use("v0", 0.15);
  await minutes(1);
  expect(namespace.targetOf("v0")?.size).not.toBe("16Gi");
});
