// Turns at one thing: of which scope the next one is, and who gets none.
import { expect, it } from "@jest/globals";
import { createTurns } from "../../../../src/policy-engine/admission/turns.ts";

const LONG_MS = 60_000;
const clock = { monotonicMs: () => performance.now() };

function build(limits = { waiting: 100, waitingInScope: 10 }) {
  const turns = createTurns(limits, clock);
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const take = (scope: string, limitMs = LONG_MS) =>
    turns.take(scope, limitMs, async () => {
      begun.push(scope);
      await new Promise<void>((resolve) => ends.push(resolve));
      return scope;
    });
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  const endNext = async (): Promise<void> => {
    ends.shift()?.();
    await settled();
  };
  return { turns, begun, take, endNext, settled };
}

it("one namespace's many wait behind each other, and another's one has the next turn", async () => {
  const { begun, take, endNext, settled } = build();
  const all = ["team", "team", "team", "team", "shop"].map((scope) => take(scope));
  await settled();
  expect(begun).toEqual(["team"]);
  for (let ended = 0; ended < 5; ended += 1) await endNext();
  expect(begun).toEqual(["team", "team", "shop", "team", "team"]);
  expect(await Promise.all(all)).toEqual(["team", "team", "team", "team", "shop"]);
});

it("who has too many waiting gets no turn, and the others go on", async () => {
  const { begun, take, endNext, settled } = build({ waiting: 3, waitingInScope: 2 });
  const taken = [take("team"), take("team"), take("team")];
  expect(await take("team")).toBeUndefined();
  const other = take("shop");
  expect(await take("third")).toBeUndefined();
  await settled();
  for (let ended = 0; ended < 4; ended += 1) await endNext();
  expect(begun).toEqual(["team", "team", "shop", "team"]);
  expect(await Promise.all([...taken, other])).toEqual(["team", "team", "team", "shop"]);
});

it("whose time is over before the turn comes gives up its place", async () => {
  const { begun, take, endNext } = build();
  const first = take("team");
  expect(await take("shop", 20)).toBeUndefined();
  await endNext();
  expect(await first).toBe("team");
  expect(begun).toEqual(["team"]);
});

it("a turn whose work fails is passed on", async () => {
  const { turns } = build();
  await expect(turns.take("team", LONG_MS, () => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
  expect(await turns.take("shop", LONG_MS, (leftMs) => Promise.resolve(leftMs > 0))).toBe(true);
});
