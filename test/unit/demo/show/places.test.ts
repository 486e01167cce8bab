import { describe, expect, it } from "@jest/globals";
import { type Places, placeLines } from "../../../../demo/show/script/places.ts";

const MOUNT_PATH = "/var/tmp/run/volume";
const KUBECONFIG = "/var/tmp/tidemark-demo-1000/run-a1B2c3/api/config";
const METRICS_URLS = {
  "policy-engine": "http://127.0.0.1:9001/metrics",
  operator: "http://127.0.0.1:9002/metrics",
  agent: "http://127.0.0.1:9003/metrics",
};

const DF = [`df -h ${MOUNT_PATH}`, "# df on btrfs may show what was written up to 30 s late"];
const KUBECTL = `KUBECONFIG=${KUBECONFIG} kubectl get fs -w`;
const EXPLAIN = "node dist/tidemark.mjs explain demo --engine http://127.0.0.1:9001";
const CURL = "curl -s http://127.0.0.1:{9001,9002,9003}/metrics";

describe("the places where a run can be looked at", () => {
  const cases: [string, Places, string[]][] = [
    ["none before the control plane listens", {}, []],
    ["the API as soon as it listens", { kubeconfig: KUBECONFIG }, [KUBECTL]],
    ["explain and every process' metrics once they run", { metricsUrls: METRICS_URLS }, [EXPLAIN, CURL]],
    [
      "all, the filesystem first, once it is mounted",
      { kubeconfig: KUBECONFIG, mountPath: MOUNT_PATH, metricsUrls: METRICS_URLS },
      [...DF, KUBECTL, EXPLAIN, CURL],
    ],
    ["none of a simulated disk's mount path", { mountPath: MOUNT_PATH, storage: "simulated" }, []],
  ];
  it.each(cases)("are %s", (_, places, commands) => {
    expect(placeLines("Look:", places)).toEqual(
      commands.length === 0 ? [] : ["Look:", ...commands.map((command) => `  ${command}`)],
    );
  });

  it("names the kubeconfig in a line that a terminal of 80 columns holds", () => {
    const [, line = ""] = placeLines("Look:", { kubeconfig: KUBECONFIG });
    expect(line.length).toBeLessThanOrEqual(80);
  });
});
