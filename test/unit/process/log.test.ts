import { expect, it } from "@jest/globals";
import { remedyFor } from "../../../src/process/log.ts";

it.each([
  ["ENOSPC", /^Free space/],
  ["EDQUOT", /quota/],
  ["EPIPE", /had ended$/],
  ["EAGAIN", /too slow$/],
  ["EIO", /kernel log/],
])("lines of the log that %s has lost come with what to do about that", (code, remedy) => {
  expect(remedyFor(code)).toMatch(remedy);
});
