import { describe, expect, it } from "@jest/globals";
import { readConfig } from "../../../src/lvmd/config.ts";

describe("lvmd's flags", () => {
  it("have the defaults of a node", () => {
    expect(readConfig([], {})).toMatchObject({
      settingsFile: "/etc/tidemark/lvmd.yaml",
      stateDirectory: "/var/lib/tidemark/lvmd",
      backupDirectory: "/etc/lvm/backup",
      commandLimitMs: 60_000,
      httpPort: 9468,
      logLevel: "info",
    });
  });

  it.each([
    [["--config", "lvmd.yaml"], /not an absolute path/],
    [["--state-directory", "state"], /not an absolute path/],
    [["--command-time-limit", "5ms"], /shorter than/],
    [["--unknown"], /unknown/i],
  ])("refuse %j with a sentence", (args, message) => {
    expect(() => readConfig(args, {})).toThrow(message);
  });
});
