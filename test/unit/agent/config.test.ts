import { describe, expect, it } from "@jest/globals";
import { readConfig } from "../../../src/agent/config.ts";

describe("the agent's configuration", () => {
  it("has the defaults of a node", () => {
    expect(readConfig(["--node-name", "a"], {})).toMatchObject({
      nodeName: "a",
      kubeletDirectory: "/var/lib/kubelet",
      csiSocket: "/var/lib/kubelet/plugins/local.tidemark.dev/csi.sock",
      spanCsiSocket: undefined,
      lvmdSocket: undefined,
      registrationDirectory: undefined,
      engines: [],
      storage: "real",
      faults: [],
    });
  });

  it("takes several engines, and the fault to be planted from the environment", () => {
    const args = ["--engine", "unix:///a", "--engine", "127.0.0.1:1"];
    const config = readConfig(args, { TIDEMARK_FAULT: "extend/grow-file/after#2", TIDEMARK_EFFECT_LOG: "/tmp/log" });
    expect(config.engines).toEqual(["unix:///a", "127.0.0.1:1"]);
    expect(config.faults).toEqual([{ point: "extend/grow-file", moment: "after", passage: 2 }]);
    expect(config.effectLog).toBe("/tmp/log");
  });

  it("takes its node's name and its namespace from the downward API", () => {
    const tls = ["--engine-tls-directory", "/tls", "--engine-token-file", "/token"];
    const config = readConfig(["--engine-service", "policy-engine", ...tls], {
      NODE_NAME: "b",
      POD_NAMESPACE: "storage-team",
    });
    expect(config.nodeName).toBe("b");
    expect(config.engineService).toEqual({ namespace: "storage-team", name: "policy-engine" });
  });

  it.each([
    [["--storage", "cloud"], /none of real, simulated/],
    [["--http-port", "65536"], /no port/],
    [["--log-level", "loud"], /none of/],
    [["--state-directory", "state"], /no absolute path/],
    [["--registration-directory", "plugins_registry"], /no absolute path/],
    [["--engine", "engine.example:9465"], /not on this machine and there is no certificate/],
    [["--engine", "127.0.0.1"], /no host:port/],
    [["--engine-tls-directory", "/tls"], /given together/],
    [["--engine-service", "policy-engine"], /give --engine-tls-directory/],
    [["--span-csi-socket", "csi.sock"], /no absolute path/],
    [["--lvmd-socket", "lvmd.sock"], /no absolute path/],
    [["--storage", "simulated", "--lvmd-socket", "/lvmd.sock"], /--lvmd-socket needs --storage real/],
    [["--storage", "simulated", "--span-csi-socket", "/csi.sock"], /needs --storage real/],
    [["--unknown"], /unknown/i],
  ])("refuses %j with a sentence", (args, message) => {
    expect(() => readConfig(args, {})).toThrow(message);
  });
});
