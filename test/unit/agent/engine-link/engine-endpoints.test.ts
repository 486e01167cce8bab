import { describe, expect, it } from "@jest/globals";
import { engineAddresses } from "../../../../src/agent/engine-link/engine-endpoints.ts";
import type { EndpointSlice } from "../../../../src/contracts/kubernetes/resources.ts";

function slice(
  endpoints: EndpointSlice["endpoints"],
  port: { name: string; port: number } = { name: "samples", port: 9470 },
) {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    addressType: "IPv4",
    metadata: { name: "a" },
    ports: [port],
    endpoints,
  };
}

describe("the engines' addresses", () => {
  it("are those of all replicas, the ones that are not ready yet among them", () => {
    const slices = [
      slice([{ addresses: ["10.0.0.2"], conditions: { ready: false } }]),
      slice([{ addresses: ["10.0.0.1"], conditions: { ready: true } }, { addresses: ["fd00::1"] }]),
    ];
    expect(engineAddresses(slices)).toEqual(["10.0.0.1:9470", "10.0.0.2:9470", "[fd00::1]:9470"]);
  });

  it("leave out a replica that ends, and count one that two slices name once", () => {
    const slices = [
      slice([{ addresses: ["10.0.0.1"] }, { addresses: ["10.0.0.2"], conditions: { terminating: true } }]),
      slice([{ addresses: ["10.0.0.1"] }]),
    ];
    expect(engineAddresses(slices)).toEqual(["10.0.0.1:9470"]);
  });

  it("are none where the Service has no port for samples, or no pods", () => {
    expect(engineAddresses([slice([{ addresses: ["10.0.0.1"] }], { name: "metrics", port: 9464 })])).toEqual([]);
    expect(engineAddresses([slice(undefined)])).toEqual([]);
  });
});
