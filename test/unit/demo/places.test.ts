import { describe, expect, it } from "@jest/globals";
import { type Places, placeLines } from "../../../src/demo/places.ts";

const MOUNT_PATH = "/var/tmp/run/volume";
const SERVER = "http://127.0.0.1:8001";
const METRICS_URLS = {
  "policy-engine": "http://127.0.0.1:9001/metrics",
  operator: "http://127.0.0.1:9002/metrics",
  agent: "http://127.0.0.1:9003/metrics",
};

const DF = [`df -h ${MOUNT_PATH}`, "# df on btrfs may show what was written up to 30 s late"];
const KUBECTL = `kubectl --server ${SERVER} -n default get filesystems -w`;
const EXPLAIN = "node dist/tidemark.mjs explain demo --engine http://127.0.0.1:9001";
const CURL = "curl -s http://127.0.0.1:{9001,9002,9003}/metrics";

describe("the places where a run can be looked at", () => {
  const cases: [string, Places, string[]][] = [
    ["none before the control plane listens", {}, []],
    ["the API as soon as it listens", { server: SERVER }, [KUBECTL]],
    ["explain and every process' metrics once they run", { metricsUrls: METRICS_URLS }, [EXPLAIN, CURL]],
    [
      "all, the filesystem first, once it is mounted",
      { server: SERVER, mountPath: MOUNT_PATH, metricsUrls: METRICS_URLS },
      [...DF, KUBECTL, EXPLAIN, CURL],
    ],
    ["none of a simulated disk's mount path", { mountPath: MOUNT_PATH, storage: "simulated" }, []],
  ];
  it.each(cases)("are %s", (_, places, commands) => {
    expect(placeLines("Look:", places)).toEqual(
      commands.length === 0 ? [] : ["Look:", ...commands.map((command) => `  ${command}`)],
    );
  });
});
