// Builds the log of a demo run without running one: sizes and use over time, and what ended when.
import { createRunLog, type EndedOperation, type RunLog, type SpacePoint } from "../../demo/show/run/run-log.ts";
import { MIB } from "../../src/contracts/quantities/quantity.ts";

export function spacePoint(atMs: number, capacityMib: number, usedMib: number): SpacePoint {
  return { atMs, capacityBytes: capacityMib * MIB, availableBytes: (capacityMib - usedMib) * MIB };
}

export function endedOperation(
  kind: EndedOperation["kind"],
  fromMib: number,
  reachedMib: number,
  overrides: Partial<EndedOperation> = {},
): EndedOperation {
  return {
    startedAtMs: 0,
    endedAtMs: 100,
    kind,
    outcome: "Succeeded",
    fromBytes: fromMib * MIB,
    toBytes: reachedMib * MIB,
    reachedBytes: reachedMib * MIB,
    reason: "RuleFired",
    message: "",
    emergency: false,
    ...overrides,
  };
}

/** A tide as the demo makes it: up in three steps, down once, up, a cancelled shrink, down. 70 s, a sample every 50 ms. */
export function tideLog(): RunLog {
  const log = createRunLog();
  const sizes: [number, number][] = [
    [0, 1024],
    [12_000, 1368],
    [16_000, 1828],
    [22_000, 2440],
    [33_000, 1100],
    [40_000, 1500],
    [45_000, 2000],
    [51_000, 1600],
    [60_000, 1024],
  ];
  for (const [index, [atMs, mib]] of sizes.entries()) {
    const before = sizes[index - 1]?.[1];
    if (before === undefined) continue;
    const kind = mib > before ? "Extend" : "Shrink";
    const outcome = atMs === 51_000 ? "Cancelled" : "Succeeded";
    const operation = { startedAtMs: atMs - (kind === "Shrink" ? 2000 : 30), endedAtMs: atMs, outcome } as const;
    log.operations.push(endedOperation(kind, before, mib, operation));
    log.story.push({
      atMs,
      kind: mib > before ? "extend" : "shrink",
      text: `${before}Mi → ${mib}Mi`,
      label: undefined,
    });
  }
  for (let atMs = 0; atMs <= 66_000; atMs += 50) {
    const capacityMib = sizes.findLast(([from]) => from <= atMs)?.[1] ?? 1024;
    log.points.push(spacePoint(atMs, capacityMib, usedMibAt(atMs)));
  }
  log.story.push(
    { atMs: 0, kind: "act", text: "The tide rises", label: "60 MB/s" },
    { atMs: 14_000, kind: "note", text: "The policy is edited", label: "policy edited" },
    { atMs: 25_000, kind: "act", text: "The oldest files are deleted", label: "files deleted" },
    { atMs: 31_000, kind: "fault", text: "The agent is killed", label: "kill -9 agent" },
    { atMs: 50_000, kind: "fault", text: "A burst in mid-shrink", label: "burst" },
  );
  log.story.sort((a, b) => a.atMs - b.atMs);
  log.hostPoints.push({ atMs: 25_000, bytes: 1900 * MIB }, { atMs: 66_000, bytes: 500 * MIB });
  log.fixedVolumeFullAtMs = 15_200;
  log.policyEditMs = 81.4;
  log.endedAtMs = 66_000;
  return log;
}

function usedMibAt(atMs: number): number {
  if (atMs < 25_000) return 120 + atMs * 0.06;
  if (atMs < 34_000) return 400;
  if (atMs < 46_000) return 400 + (atMs - 34_000) * 0.09;
  if (atMs < 50_000) return 420;
  return atMs < 53_000 ? 420 + (atMs - 50_000) * 0.25 : 380;
}
