import { describe, expect, it } from "@jest/globals";
import { readConfig } from "../../../src/agent/config.ts";

describe("the agent's configuration", () => {
  it("has the defaults of a node", () => {
    expect(readConfig(["--node-name", "a"], {})).toMatchObject({
      nodeName: "a",
      kubeletDirectory: "/var/lib/kubelet",
      csiSocket: "/var/lib/kubelet/plugins/local.tidemark.dev/csi.sock",
      engines: [],
      storage: "real",
      fault: undefined,
    });
  });

  it("takes several engines, and the fault to be planted from the environment", () => {
    const args = ["--engine", "unix:///a", "--engine", "b:1"];
    const config = readConfig(args, { TIDEMARK_FAULT: "extend/grow-file/after#2", TIDEMARK_EFFECT_LOG: "/tmp/log" });
    expect(config.engines).toEqual(["unix:///a", "b:1"]);
    expect(config.fault).toEqual({ point: "extend/grow-file", moment: "after", passage: 2 });
    expect(config.effectLog).toBe("/tmp/log");
  });

  it.each([
    [["--storage", "cloud"], /none of real, simulated/],
    [["--http-port", "65536"], /no port/],
    [["--log-level", "loud"], /none of/],
    [["--state-directory", "state"], /no absolute path/],
    [["--unknown"], /unknown/i],
  ])("refuses %j with a sentence", (args, message) => {
    expect(() => readConfig(args, {})).toThrow(message);
  });
});
