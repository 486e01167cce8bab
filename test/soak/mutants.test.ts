// Every planted bug of test/mutants is planted in a copy of the tree, and every test that its entry names fails with it. In `make soak` alone.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "@jest/globals";
import { readMutants, registryFiles } from "../mutants/registry.ts";
import { noteFigures } from "./figures.ts";

const LIMIT_MS = 2 * 3_600_000;

describe("planted bugs", () => {
  it(
    "are each caught by every test that their entry names",
    async () => {
      const count = registryFiles().flatMap(readMutants).length;
      const run = spawn(process.execPath, ["--import", "tsx", "test/mutants/run.ts"], {
        env: { ...process.env, MUTANTS: "", NODE_OPTIONS: "" },
        stdio: ["ignore", "pipe", "inherit"],
      });
      const [said] = await Promise.all([text(run.stdout), once(run, "close")]);
      const lines = said.trim().split("\n");
      const result = JSON.parse(lines.pop() ?? "{}") as { readonly total: number };
      noteFigures("mutants", { ...result });
      const notCaught = lines.filter((line) => /SURVIVED|UNPROVEN|NO CODE|NOT CAUGHT|without a bug/.test(line));
      expect({ status: run.exitCode, notCaught, total: result.total }).toEqual({
        status: 0,
        notCaught: [],
        total: count,
      });
    },
    LIMIT_MS,
  );
});
