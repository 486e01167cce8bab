import { expect, it } from "@jest/globals";
import { createOwnWrites } from "../../../../../src/platform/kube/client/writes.ts";
import { configMap } from "../../../../builders/config-map.ts";

const [BEFORE, WRITTEN, LATER] = ["1", "2", "3"].map((version) => configMap("a", version, { version })) as [
  ReturnType<typeof configMap>,
  ReturnType<typeof configMap>,
  ReturnType<typeof configMap>,
];

let nowMs = 0;
const clock = { monotonicMs: () => nowMs };

it("answers with what was written until the cache shows anything else", () => {
  const own = createOwnWrites(clock);
  expect(own.latest(BEFORE)).toBe(BEFORE);
  own.wrote(BEFORE, WRITTEN);
  expect(own.latest(BEFORE)).toBe(WRITTEN);
  expect(own.latest(LATER)).toBe(LATER);
  // A cache that is filled again may show less than before: what was written is forgotten by then.
  expect(own.latest(BEFORE)).toBe(BEFORE);
});

it("answers with the last of several writes", () => {
  const own = createOwnWrites(clock);
  own.wrote(BEFORE, WRITTEN);
  own.wrote(BEFORE, LATER);
  expect(own.latest(BEFORE)).toBe(LATER);
});

it("answers with nothing where the object is gone, and with no object that had the name before", () => {
  const own = createOwnWrites(clock);
  own.wrote(BEFORE, WRITTEN);
  expect(own.latest(undefined)).toBeUndefined();
  const another = configMap("a", "1", {});
  expect(own.latest({ ...another, metadata: { ...another.metadata, uid: "another" } })).not.toBe(WRITTEN);
});

it("remembers nothing of a write to an object that the cache does not show", () => {
  const own = createOwnWrites(clock);
  own.wrote(undefined, WRITTEN);
  expect(own.latest(BEFORE)).toBe(BEFORE);
});

it("believes what was written for seconds only: records put back from a backup show what was there before, too", () => {
  const own = createOwnWrites(clock);
  own.wrote(BEFORE, WRITTEN);
  nowMs += 4999;
  expect(own.latest(BEFORE)).toBe(WRITTEN);
  nowMs += 1;
  expect(own.latest(BEFORE)).toBe(BEFORE);
});
