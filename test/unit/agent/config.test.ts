import { describe, expect, it } from "@jest/globals";
import { evictionReserveBytes, readConfig, readEvictionReserve } from "../../../src/agent/config.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";

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
    [["--storage", "cloud"], /not one of real, simulated/],
    [["--http-port", "65536"], /not a port/],
    [["--log-level", "loud"], /not one of/],
    [["--state-directory", "state"], /not an absolute path/],
    [["--registration-directory", "plugins_registry"], /not an absolute path/],
    [["--engine", "engine.example:9465"], /not on this machine: give --engine-tls-directory/],
    [["--engine", "127.0.0.1"], /not HOST:PORT/],
    [["--engine-tls-directory", "/tls"], /given together/],
    [["--engine-service", "policy-engine"], /give --engine-tls-directory/],
    [["--span-csi-socket", "csi.sock"], /not an absolute path/],
    [["--lvmd-socket", "lvmd.sock"], /not an absolute path/],
    [["--storage", "simulated", "--lvmd-socket", "/lvmd.sock"], /--lvmd-socket needs --storage real/],
    [["--storage", "simulated", "--span-csi-socket", "/csi.sock"], /needs --storage real/],
    [["--unknown"], /unknown/i],
  ])("refuses %j with a sentence", (args, message) => {
    expect(() => readConfig(args, {})).toThrow(message);
  });
});

describe("what member files leave to kubelet", () => {
  it.each([
    ["10%", 10 * GIB],
    ["2.5%", 2.5 * GIB],
    ["0%", 0],
    ["5Gi", 5 * GIB],
    ["0", 0],
  ])("is %s of a disk of 100 GiB", (text, bytes) => {
    expect(evictionReserveBytes(readEvictionReserve(text), 100 * GIB)).toBe(bytes);
  });

  it.each(["", "100%", "-5%", "%", "ten", "5 Gi", "1e3%"])("is never %j, and the refusal names the flag", (text) => {
    expect(() => readEvictionReserve(text)).toThrow(/^--eviction-reserve .* is neither a percentage/);
  });
});
