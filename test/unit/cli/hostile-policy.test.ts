// A tenant's policy whose message is escapes for the terminal of an administrator who asks why: through `tidemark explain`, as it is run by hand.
import { execFile } from "node:child_process";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { type Explanation, explain } from "../../../src/policy-engine/decide/explain-decision.ts";
import { NO_CEILINGS } from "../../../src/policy-engine/policies/ceilings.ts";
import { aVolume } from "../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../builders/policy.ts";

const HOSTILE = "\\u001b]0;pwned\\u0007\\u001b[2J\\u001b[1;1Hextend: everything is fine\\r\\u009b5m\\u202e";

let engine: Server;
beforeAll(async () => {
  const rule = {
    ...EXTEND_AT_80,
    when: `volume.usedRatio >= 0.8 && '${HOSTILE}' != ''`,
    messageExpression: `'${HOSTILE}'`,
  };
  const explanation = explain(aVolume({ usedRatio: 0.9 }), aPolicy({ rules: [rule] }), NO_CEILINGS);
  // As it comes out of the expression.
  expect(explanation.plan.message).toContain("\u001b]0;pwned");
  engine = createServer((_request, response) => response.end(JSON.stringify(explanation)));
  await new Promise<void>((resolve) => engine.listen(0, "127.0.0.1", resolve));
});
afterAll(() => void engine.close());

it.each(["text", "json"])(
  "cannot act on the terminal of its reader, as %s",
  async (output) => {
    const { port } = engine.address() as AddressInfo;
    const args = [
      "explain",
      "--engine",
      `http://127.0.0.1:${port}`,
      "--namespace",
      "shop",
      "--output",
      output,
      "data-0",
    ];
    const { stdout } = await promisify(execFile)("node", ["--import", "tsx", "src/cli/main.ts", ...args]);
    expect(stdout).toContain("everything is fine");
    if (output === "json") expect((JSON.parse(stdout) as Explanation).plan.message).toContain("\u001b]0;pwned");
    expect(stdout.replaceAll("\n", "")).not.toMatch(/\p{C}/u);
  },
  60_000,
);
