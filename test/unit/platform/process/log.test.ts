import { execFileSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { remedyFor } from "../../../../src/platform/process/log.ts";

it.each([
  ["ENOSPC", /^Free space/],
  ["EDQUOT", /quota/],
  ["EPIPE", /had ended$/],
  ["EAGAIN", /too slow$/],
  ["EIO", /kernel log/],
])("lines of the log that %s has lost come with what to do about that", (code, remedy) => {
  expect(remedyFor(code)).toMatch(remedy);
});

it("a line says what others have brought without anything that a terminal acts on, and is JSON that means the same", () => {
  const brought = "\u009b2J\u202eall is well\u001b[1m";
  const script = `import { createLogger } from "./src/platform/process/log.ts"; createLogger("p", "info").info(${JSON.stringify(brought)});`;
  const args = ["--import", "tsx", "--input-type", "module", "--eval", script];
  const line = execFileSync("sh", ["-c", 'exec node "$@" 2>&1 >/dev/null', "sh", ...args], { encoding: "utf8" });
  expect(line.trimEnd()).not.toMatch(/\p{C}/u);
  expect(JSON.parse(line)).toMatchObject({ msg: brought });
});
