import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { RELEASE } from "../../../src/contracts/names.ts";
import { readConfig } from "../../../src/operator/config.ts";

describe("the operator's configuration", () => {
  it("has a default for everything but the cluster", () => {
    expect(readConfig([], {})).toMatchObject({
      connection: { server: undefined, kubeconfig: undefined },
      leaseNamespace: "tidemark-system",
      csiSocket: "/run/tidemark/csi-controller.sock",
      httpPort: 9465,
      namespaceBudgetBytes: 1024 ** 4,
      nodeLossDelayMs: 30_000,
      consolidationLookMs: 10_000,
      logLevel: "info",
      faults: [],
    });
  });

  it("keeps its Lease in the pod's own namespace", () => {
    expect(readConfig([], { POD_NAMESPACE: "storage-team" }).leaseNamespace).toBe("storage-team");
    expect(readConfig(["--lease-namespace", "a"], { POD_NAMESPACE: "storage-team" }).leaseNamespace).toBe("a");
  });

  it("serves span only where it is given a socket, and knows its own name only in a pod", () => {
    expect(readConfig([], {})).toMatchObject({ spanCsiSocket: undefined, userName: undefined });
    expect(readConfig(["--span-csi-socket=/run/span.sock"], {}).spanCsiSocket).toBe("/run/span.sock");
    const environment = { POD_NAMESPACE: "storage-team", POD_SERVICE_ACCOUNT: "operator" };
    expect(readConfig([], environment).userName).toBe("system:serviceaccount:storage-team:operator");
  });

  it("serves pods' admission only where it is told so, and knows which schedulers ask the extender", () => {
    expect(readConfig([], {}).podWebhook).toBeUndefined();
    expect(readConfig(["--pod-webhook"], {}).podWebhook).toEqual({ port: 9473, schedulersWithExtender: [] });
    const schedulers = ["--scheduler-with-extender=default-scheduler", "--scheduler-with-extender=volcano"];
    expect(readConfig(["--pod-webhook", "--pod-webhook-port=0", ...schedulers], {}).podWebhook).toEqual({
      port: 0,
      schedulersWithExtender: ["default-scheduler", "volcano"],
    });
  });

  it("gives every start another identity", () => {
    expect(readConfig(["--identity", "a"], {}).identity).not.toBe(readConfig(["--identity", "a"], {}).identity);
  });

  it("takes the pod's cluster and a planted fault from the environment", () => {
    const environment = { KUBERNETES_SERVICE_HOST: "10.0.0.1", TIDEMARK_FAULT: "create-volume/layout/after" };
    expect(readConfig([], environment)).toMatchObject({
      connection: { serviceHost: "10.0.0.1" },
      faults: [{ point: "create-volume/layout", moment: "after" }],
    });
  });

  it.each([
    [["--http-port", "x"], "--http-port x is not a port"],
    [["--log-level", "loud"], "--log-level loud is not one of"],
    [["--unknown"], "--unknown"],
    [["--pod-webhook", "--pod-webhook-port=70000"], "--pod-webhook-port 70000 is not a port"],
    [["--default-namespace-budget", "a lot"], '--default-namespace-budget: "a lot" is not a quantity'],
  ])("refuses %j", (args, text) => {
    expect(() => readConfig(args, {})).toThrow(text);
  });

  it("tells CSI the release that package.json names", () => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
    expect(RELEASE).toBe(version);
  });
});
