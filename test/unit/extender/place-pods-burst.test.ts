import { describe, expect, it } from "@jest/globals";
import { createLedger } from "../../../src/extender/apply/ledger.ts";
import { nothingTaken } from "../../../src/extender/decide/decide-node.ts";
import { runBurst } from "../../builders/burst.ts";
import { HOLD_LIMIT_MS } from "../../builders/placement.ts";

const NOTHING = { reservations: 0, holds: 0 };

describe("a burst of pods from 32 clients at once", () => {
  it.each([1, 2, 3])(
    "finds room for each, puts none where there is none, and leaves nothing behind (seed %i)",
    (seed) => {
      const end = runBurst({ nodes: 150, pods: 300, clients: 32, room: 2, seed });
      expect(end).toMatchObject({ placed: 300, overCommits: 0, left: NOTHING });
    },
  );

  it("waits where there is room for fewer at a time than ask, and is done in the end", () => {
    const end = runBurst({ nodes: 3, pods: 15, clients: 15, room: 5, seed: 4 });
    expect(end).toMatchObject({ placed: 15, overCommits: 0, left: NOTHING });
    expect(end.refusals).toBeGreaterThan(0);
  });

  describe("whose binding waits for the scheduler's rate of writes", () => {
    const slow = { nodes: 40, pods: 24, clients: 24, room: 1, seed: 1, bindingMs: [12_000, 15_000] } as const;

    it("is placed without an over-commit", () => {
      expect(runBurst(slow)).toMatchObject({ placed: 24, overCommits: 0, left: NOTHING });
    });

    it("over-commits where holds end before it", () => {
      expect(runBurst({ ...slow, ledger: createLedger(10_000) }).overCommits).toBeGreaterThan(0);
    });
  });

  it("over-commits where the ledger is not consulted, which the recount finds", () => {
    const ledger = createLedger(HOLD_LIMIT_MS);
    const blind = { ...ledger, takenOf: () => ({ reserved: nothingTaken(), held: nothingTaken() }) };
    expect(
      runBurst({ nodes: 150, pods: 300, clients: 32, room: 2, seed: 1, ledger: blind }).overCommits,
    ).toBeGreaterThan(0);
  });

  it("over-commits where reservations are consulted and holds are not", () => {
    const ledger = createLedger(HOLD_LIMIT_MS);
    const withoutHolds = { ...ledger, hold: () => undefined };
    const end = runBurst({ nodes: 150, pods: 300, clients: 32, room: 2, seed: 1, ledger: withoutHolds });
    expect(end.overCommits).toBeGreaterThan(0);
  });
});
